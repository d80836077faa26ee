"""Whether a folder is on a network file system: locks there are not to be relied on."""

from __future__ import annotations

import re
from pathlib import Path

_NETWORK = {
    "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs",
    "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs",
    "smb3", "smbfs",
}  # fmt: skip


def network_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return the type of the network file system that `path` is on; None where it is local.

    `path` need not exist. `mounts` is the kernel's list (proc(5), mountinfo).
    """
    path = path.resolve()
    longest, kind = -1, ""
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", _character, before.split()[4]))
        # Of several mounts on one point, the last covers the others.
        if path.is_relative_to(point) and len(point.parts) >= longest:
            longest, kind = len(point.parts), after.split()[0]
    return kind if kind in _NETWORK else None


def _character(octal: re.Match[str]) -> str:
    return chr(int(octal[1], 8))
