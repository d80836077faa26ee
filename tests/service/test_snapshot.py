from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError, StavesError
from staves.service._ignore import Ignore
from staves.service._snapshot import materialise, materialise_job, pack, pack_job
from staves.service._spec import JobSpec


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    write(folder, {"train.py": "print(1)", "lib/model.py": "x = 1", "run.sh": "#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o755)
    (folder / "logs").mkdir()
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def tree(folder: Path) -> dict[str, str]:
    """Return what is in a folder, read by other means: path to kind and content."""
    found = {}
    for where, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(where) / name
            key = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found[key] = f"link {path.readlink()}"
            elif path.is_dir():
                found[key] = "folder"
            else:
                found[key] = f"file {os.access(path, os.X_OK)} {path.read_bytes()!r}"
    return found


def copy_of(work: Path, home: Path, to: Path) -> dict[str, str]:
    materialise(home, pack(work, home).hash, to)
    return tree(to)


def test_a_copy_is_what_was_there_when_it_was_taken(work: Path, home: Path, tmp_path: Path) -> None:
    before = tree(work)
    snapshot = pack(work, home)
    assert (snapshot.files, snapshot.bytes) == (3, 8 + 5 + 10)
    write(work, {"train.py": "print(2)", "new.py": ""})
    materialise(home, snapshot.hash, tmp_path / "job")
    assert tree(tmp_path / "job") == before
    assert (tmp_path / "job/train.py").stat().st_mode & 0o777 == 0o644
    for path in (home / "snapshots" / snapshot.hash / "files").rglob("*"):
        assert path.is_dir() or not path.stat().st_mode & 0o222, f"{path} can be written"


def test_equal_trees_are_kept_once_and_others_are_not(work: Path, home: Path) -> None:
    first = pack(work, home)
    write(work, {"__pycache__/x.pyc": "1", ".git/HEAD": "ref"})
    assert pack(work, home) == first
    assert [path.name for path in (home / "snapshots").iterdir()] == [first.hash]
    hashes = {first.hash}
    write(work, {"train.py": "print(3)"})
    hashes.add(pack(work, home).hash)
    (work / "train.py").chmod(0o755)
    hashes.add(pack(work, home).hash)
    (work / "train.py").rename(work / "other.py")
    hashes.add(pack(work, home).hash)
    (work / "empty").mkdir()
    hashes.add(pack(work, home).hash)
    assert len(hashes) == 5


def test_what_is_no_part_of_a_job_is_left_out(work: Path, tmp_path: Path) -> None:
    expected = tree(work)
    home = work / ".home"
    write(
        work,
        {
            ".git/config": "x",
            "lib/__pycache__/m.pyc": "x",
            "venv/pyvenv.cfg": "x",
            "venv/lib/big.so": "x",
            ".home/service/staves.db": "x",
            "out/ckpt/state": "x",
            "data/train.bin": "x",
            "sub/ignored.log": "x",
            ".stavesignore": "*.log\n/sub/\n",
        },
    )
    spec = JobSpec(
        "j",
        "x",
        work,
        Path("/usr/bin/python3"),
        checkpoint=work / "out/ckpt",
        data=(work / "data",),
        outputs=(work / "results",),
    )
    to = tmp_path / "job"
    materialise_job(spec, home, pack_job(spec, home).hash, to)
    links = {
        "out": "folder",
        "out/ckpt": f"link {work}/out/ckpt",
        "data": f"link {work}/data",
        "results": f"link {work}/results",
    }
    assert tree(to) == expected | links | {".stavesignore": "file False b'*.log\\n/sub/\\n'"}
    (to / "results/figure.png").write_text("1")
    assert (work / "results/figure.png").read_text() == "1"


def test_a_link_within_a_link_is_not_made_twice(work: Path, home: Path, tmp_path: Path) -> None:
    spec = JobSpec(
        "j",
        "x",
        work,
        Path("/usr/bin/python3"),
        checkpoint=work / "out/ckpt",
        outputs=(work / "out", tmp_path / "elsewhere"),
    )
    materialise_job(spec, home, pack_job(spec, home).hash, tmp_path / "job")
    assert (tmp_path / "job/out").readlink() == work / "out"
    assert (work / "out/ckpt").is_dir()
    assert not (work / "out/ckpt").is_symlink()
    assert (tmp_path / "elsewhere").is_dir()


def test_links_stay_inside(work: Path, home: Path, tmp_path: Path) -> None:
    (work / "a").symlink_to("lib/model.py")
    (work / "lib/b").symlink_to(work / "train.py")
    (work / "dangling").symlink_to("not-there")
    (work / "folder").symlink_to("lib")
    copy = copy_of(work, home, tmp_path / "job")
    assert copy["a"] == "link lib/model.py"
    assert copy["lib/b"] == "link ../train.py"
    assert copy["dangling"] == "link not-there"
    assert copy["folder"] == "link lib"
    assert "folder/model.py" not in copy


@pytest.mark.parametrize("target", ["../..", "/etc/passwd", "../lib/../../x", "../aside/x"])
def test_a_link_that_leads_out_is_refused(
    work: Path, home: Path, tmp_path: Path, target: str
) -> None:
    (tmp_path / "x").mkdir()
    (work / "aside").symlink_to(tmp_path)  # left out itself, but others may lead through it
    (work / ".stavesignore").write_text("aside\n")
    (work / "lib/bad").symlink_to(target)
    with pytest.raises(InputError, match="leads out of the working directory") as caught:
        pack(work, home)
    assert "under data:" in str(caught.value)
    assert list((home / "snapshots").glob("*")) == []
    (work / ".stavesignore").write_text("bad\naside\n")
    assert pack(work, home).files == 4


def test_what_is_too_large_is_named(work: Path, home: Path) -> None:
    write(work, {"big/one": "x" * 3_000_000, "big/two": "x" * 3_000_000, "mid": "x" * 2_000_000})
    with pytest.raises(InputError) as caught:
        pack(work, home, limit=7_000_000)
    message = str(caught.value)
    assert "8.0 MB" in message
    assert "of at most 7.0 MB" in message
    assert "largest: big (6.0 MB), mid (2.0 MB)" in message
    assert ".stavesignore" in message
    (work / ".stavesignore").write_text("big/*\n!big/two\n")
    assert pack(work, home, limit=7_000_000).files == 6


def test_too_many_files_are_refused(
    work: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staves.service._snapshot._MOST_ENTRIES", 5)
    assert pack(work, home).files == 3
    (work / "sixth").touch()
    with pytest.raises(InputError, match="6 files and folders"):
        pack(work, home)


def test_what_cannot_be_copied_is_refused(work: Path, home: Path) -> None:
    os.mkfifo(work / "pipe")
    with pytest.raises(InputError, match="pipe: is neither a file nor a folder"):
        pack(work, home)


@pytest.mark.parametrize("leave_out", [".", "home"])
def test_a_snapshot_of_nothing_is_refused(work: Path, home: Path, leave_out: str) -> None:
    with pytest.raises(InputError, match="whole working directory is left out"):
        pack(work, work if leave_out == "home" else home, leave_out=[work])


@pytest.mark.parametrize("damage", ["content", "mode-of-manifest", "missing", "gone"])
def test_a_damaged_snapshot_is_not_run(work: Path, home: Path, tmp_path: Path, damage: str) -> None:
    snapshot = home / "snapshots" / pack(work, home).hash
    victim = snapshot / "files/train.py"
    if damage == "content":
        victim.chmod(0o644)
        victim.write_text("print(9)")
    elif damage == "mode-of-manifest":
        manifest = snapshot / "manifest.json"
        manifest.write_text(manifest.read_text().replace("false", "true"))
    elif damage == "missing":
        victim.unlink()
    else:
        shutil.rmtree(snapshot)
    with pytest.raises(StavesError, match=r"is damaged|is gone") as caught:
        materialise(home, snapshot.name, tmp_path / "job")
    assert caught.value.hint == "submit the job again"
    assert not (tmp_path / "job").exists()


def test_a_copy_that_was_interrupted_is_made_anew_and_a_whole_one_is_left_alone(
    work: Path, home: Path, tmp_path: Path
) -> None:
    name = pack(work, home).hash
    write(tmp_path, {".job.part/train.py": "half", ".job.part/other": "x"})
    materialise(home, name, tmp_path / "job")
    assert tree(tmp_path / "job") == tree(work)
    assert not (tmp_path / ".job.part").exists()
    write(tmp_path / "job", {"train.py": "edited by the job", "result": "1"})
    before = tree(tmp_path / "job")
    materialise(home, name, tmp_path / "job")
    assert tree(tmp_path / "job") == before


def test_what_a_dead_process_has_left_is_removed(work: Path, home: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    mine = f".part-{os.getpid()}-00"
    write(home / "snapshots", {f".part-{child.pid}-00/files/x": "1", f"{mine}/files/x": "1"})
    snapshot = pack(work, home)
    assert {path.name for path in (home / "snapshots").iterdir()} == {snapshot.hash, mine}


def test_a_home_that_cannot_be_written_is_said(work: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StavesError, match="Not a directory") as caught:
        pack(work, tmp_path / "file")
    assert "STAVES_HOME" in str(caught.value)


names = st.sampled_from(["a", "b", "ab", "a.py", "b.log", "c d", "x[1]"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
pieces = st.sampled_from(["a", "b", "*", "?", "**", "[ab]", "[!a]", "*.py", "ab", ".log", "/"])
patterns = st.tuples(
    st.sampled_from(["", "", "!", "/", "!/"]),
    st.lists(pieces, min_size=1, max_size=4).map("".join),
    st.sampled_from(["", "", "/"]),
).map("".join)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the oracle")
@settings(max_examples=100)
@given(lines=st.lists(patterns, max_size=4), files=st.sets(paths, min_size=1, max_size=8))
def test_the_ignore_file_means_what_git_means_by_it(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], files: set[str]
) -> None:
    if any("//" in line or "***" in line for line in lines):
        return  # nobody writes them
    root = tmp_path_factory.mktemp("tree")
    folder = root / "work"
    for name in sorted(files):
        path = folder / name
        if not path.exists() and all(not p.is_file() for p in path.parents):
            write(folder, {name: ""})
    (root / "patterns").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", f"--exclude-from={root / 'patterns'}"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = set(filter(None, listed.split("\0")))
    ignored = Ignore(lines)
    kept = set()
    for where, folders, found in os.walk(folder):
        base = Path(where).relative_to(folder)
        folders[:] = [
            name
            for name in folders
            if name != ".git" and not ignored((base / name).as_posix(), folder=True)
        ]
        kept |= {
            (base / name).as_posix()
            for name in found
            if not ignored((base / name).as_posix(), folder=False)
        }
    assert kept == expected


@settings(max_examples=30)
@given(st.dictionaries(paths, st.tuples(st.binary(max_size=50), st.booleans()), max_size=6))
def test_any_tree_comes_back(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, tuple[bytes, bool]]
) -> None:
    root = tmp_path_factory.mktemp("any")
    work = root / "work"
    work.mkdir()
    for name, (content, executable) in files.items():
        path = work / name
        if path.exists() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if executable else 0o600)
    assert copy_of(work, root / "home", root / "job") == tree(work)


def test_a_snapshot_can_be_replaced_by_a_job_with_other_limits(work: Path, home: Path) -> None:
    spec = JobSpec("j", "x", work, Path("/usr/bin/python3"), max_snapshot=10)
    with pytest.raises(InputError, match="too much for a snapshot"):
        pack_job(spec, home)
    assert pack_job(replace(spec, max_snapshot=1000), home).files == 3
