from __future__ import annotations

from pathlib import Path

import pytest

from staves.service._mounts import network_file_system

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:40 / /srv rw,relatime shared:9 master:2 - nfs4 filer:/export rw
31 30 254:1 / /srv/local rw - xfs /dev/sdb rw
32 22 0:50 / /mnt/a\\040b rw - fuse.sshfs host:/x rw
33 22 0:51 / /twice rw - cifs //s/x rw
34 22 254:2 / /twice rw - btrfs /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", None),
        ("/home/x", None),
        ("/srv", "nfs4"),
        ("/srv/x/not/there", "nfs4"),
        ("/srvx", None),
        ("/srv/local/x", None),
        ("/mnt/a b/c", "fuse.sshfs"),
        ("/twice/x", None),
    ],
)
def test_the_mount_nearest_to_the_path_counts(
    tmp_path: Path, path: str, expected: str | None
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert network_file_system(Path(path), mounts) == expected


def test_the_kernels_own_list_is_read(tmp_path: Path) -> None:
    assert network_file_system(tmp_path) is None
