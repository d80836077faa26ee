"""Snapshots come in as tars, whole or not at all, and nothing of them leads outside."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError
from staves.service._tar import read_tar, write_tar
from tests.service.conftest import HASH, Ask
from tests.service.fake import FakeService
from tests.service.test_api import API, refused

NEW = "f" * 64
Member = tuple[str, bytes | str | None]
"""A name with the content of a file, the target of a link, or None for a folder."""


def tar(*members: Member, kind: bytes | None = None) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
            else:
                member.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
                member.linkname = content or ""
            if kind is not None:
                member.type = kind
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return file.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    read_tar(io.BytesIO(data), folder, most_bytes=1000, most_members=20)


def tree(folder: Path) -> dict[str, bytes | str | None]:
    def content(path: Path) -> bytes | str | None:
        if path.is_symlink():
            return str(path.readlink())
        return None if path.is_dir() else path.read_bytes()

    return {str(path.relative_to(folder)): content(path) for path in folder.rglob("*")}


def test_a_snapshot_is_uploaded(ask: Ask, service: FakeService, tmp_path: Path) -> None:
    assert ask("ada").request("HEAD", f"{API}/snapshots/{NEW}").status_code == 404
    data = tar(("train.py", b"print()"), ("lib", None), ("lib/a.py", b"1"), ("b.py", "lib/a.py"))
    assert ask("ada").put(f"{API}/snapshots/{NEW}", content=data).status_code == 204
    assert ask("ada").request("HEAD", f"{API}/snapshots/{NEW}").status_code == 204
    assert tree(service.snapshots[NEW]) == {
        "train.py": b"print()", "lib": None, "lib/a.py": b"1", "b.py": "lib/a.py"
    }  # fmt: skip
    assert not list(tmp_path.glob(".upload-*"))


def test_one_that_is_here_is_left_alone(ask: Ask, service: FakeService) -> None:
    before = service.snapshots[HASH]
    assert ask("ada").put(f"{API}/snapshots/{HASH}", content=b"no tar").status_code == 204
    assert service.snapshots[HASH] == before


ATTACKS: list[tuple[Member, ...]] = [
    (("../evil", b"x"),),
    (("a/../../evil", b"x"),),
    (("/tmp/evil", b"x"),),
    (("../evil", None),),
    (("link", "/etc/passwd"),),
    (("link", "../outside"),),
    (("link", ".."), ("link/evil", b"x")),
    (("link/evil", b"x"), ("link", "..")),
    (("link", ".."), ("link/evil", "train.py")),
    (("d/e/root", "../.."), ("out", "d/e/root/..")),
    (("out", "d/e/root/.."), ("d/e/root", "../..")),
    (("a", b"1"), ("a", b"2")),
    (("a", b"1"), ("a/b", b"2")),
    (("a", None), ("a", b"2")),
    (("a" * 5000, b"1"),),
    (("a", "b/" * 3000),),
    ((".", b"1"),),
    ((".", "a"),),
]


@pytest.mark.parametrize("members", ATTACKS, ids=lambda m: " ".join(n[:12] for n, _ in m))
def test_nothing_leads_outside(
    ask: Ask, service: FakeService, tmp_path: Path, members: tuple[Member, ...]
) -> None:
    before = tree(tmp_path)
    answer = ask("ada").put(f"{API}/snapshots/{NEW}", content=tar(*members))
    refused(answer, 422, "the snapshot may not hold", "stay inside")
    assert NEW not in service.snapshots
    assert tree(tmp_path) == before


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE])
def test_other_kinds_are_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(InputError, match="neither file, folder nor link"):
        unpack(tar(("a", "target"), kind=kind), tmp_path)


NAMES = st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=4).map("/".join)
MEMBERS = st.tuples(NAMES, st.one_of(st.binary(max_size=3), st.none(), NAMES))


@settings(max_examples=300)
@given(st.lists(MEMBERS, max_size=6))
def test_whatever_is_taken_stays_inside(
    tmp_path_factory: pytest.TempPathFactory, members: list[Member]
) -> None:
    outer = tmp_path_factory.mktemp("outer")
    folder = outer / "x" / "y" / "folder"
    folder.mkdir(parents=True)
    try:
        unpack(tar(*members), folder)
    except InputError:
        links = {path for path in folder.rglob("*") if path.is_symlink()}
    else:
        links = set()
        for path in folder.rglob("*"):
            assert os.path.realpath(path).startswith(str(folder.resolve()))
    for path in outer.rglob("*"):
        assert path in (outer / "x", outer / "x/y", folder) or folder in path.parents
    for path in links:
        path.unlink()


def test_it_may_not_be_too_large(ask: Ask, tmp_path: Path) -> None:
    big = tar(("a", bytes(200_000)))
    refused(ask("ada").put(f"{API}/snapshots/{NEW}", content=big), 413, "larger than 100000")
    for members in ([("a", bytes(600)), ("b", bytes(600))], [(f"{i}", b"") for i in range(21)]):
        with pytest.raises(InputError, match="too large"):
            unpack(tar(*members), tmp_path)


def test_neither_may_other_bodies(ask: Ask) -> None:
    body = b'{"document": "' + b"x" * 20_000 + b'"}'

    async def chunks() -> AsyncIterator[bytes]:
        yield body

    json = {"Content-Type": "application/json"}
    for content in (body, chunks()):
        answer = ask("ada").post(f"{API}/jobs", content=content, headers=json)
        refused(answer, 413, "larger than 10000")
    for length in (b"-1", b"x", b"\xb2"):
        headers = {b"Content-Type": b"application/json", b"Content-Length": length}
        answer = ask("ada").post(f"{API}/jobs", content=body, headers=headers)
        refused(answer, 400, "no number")


@pytest.mark.parametrize("data", [b"", b"nothing", tar(("a", b"1"))[:400]])
def test_what_is_no_tar_is_refused(ask: Ask, data: bytes) -> None:
    refused(ask("ada").put(f"{API}/snapshots/{NEW}", content=data), 422, "no tar")


@pytest.mark.parametrize("name", ["../x", "..%2f..%2fetc", "ABC", "f" * 15, "f" * 200])
def test_a_hash_is_a_hash(ask: Ask, name: str) -> None:
    assert ask("ada").put(f"{API}/snapshots/{name}", content=b"").status_code in (404, 422)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "lib").mkdir(parents=True)
    target.mkdir()
    (source / "lib" / "run.sh").write_bytes(b"echo")
    (source / "lib" / "run.sh").chmod(0o755)
    (source / "plain").write_bytes(b"1")
    (source / "link").symlink_to("lib/run.sh")
    file = io.BytesIO()
    write_tar(source, file)
    unpack(file.getvalue(), target)
    assert tree(target) == tree(source)
    assert os.access(target / "lib" / "run.sh", os.X_OK)
    assert not (target / "plain").stat().st_mode & 0o111
