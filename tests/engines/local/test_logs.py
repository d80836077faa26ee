"""Logs of workers: kept, cut to what matters, and never a reason to end a run."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from staves.engines.local import LogFolder, staves_home
from staves.errors import StavesError


def test_the_home_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAVES_HOME", "here")
    assert staves_home() == tmp_path / "here"
    monkeypatch.setenv("STAVES_HOME", "")
    assert staves_home() == Path.home() / ".staves"


def test_each_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    logs = LogFolder.create(tmp_path, "my script/../é", attempt=2)
    assert logs.folder.is_dir()
    assert logs.folder.name == "attempt-2"
    assert logs.folder.parents[1] == tmp_path / "runs"
    assert list(logs.folder.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StavesError, match="Not a directory") as caught:
        LogFolder.create(tmp_path / "file", "run")
    assert "STAVES_HOME" in str(caught.value.hint)
    assert caught.value.exit_code == 1


def test_a_full_disk_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StavesError, match="No space left on device"):
        LogFolder.create(tmp_path, "run")


def test_a_disk_that_fills_up_is_said_once(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path)
    assert logs.write(0, b"one\n") is None
    for rank in (1, 2):
        logs.path(rank).mkdir()  # stands for any error of the file system
    assert "log lines are being lost" in str(logs.write(1, b"two\n"))
    assert logs.write(2, b"three\n") is None
    assert logs.write(0, b"four\n") is None
    logs.close()
    assert logs.path(0).read_bytes() == b"one\nfour\n"


def test_the_tail_is_the_last_lines(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path)
    assert logs.tail(0, 3) == ""
    logs.path(0).write_bytes(b"a\nb\n\xff\nd\n")
    assert logs.tail(0, 2) == "\N{REPLACEMENT CHARACTER}\nd"


HEAD = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    "link",
    [
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
        "ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal " + HEAD,
    ],
)
def test_the_tail_of_a_failure_is_its_traceback_with_its_causes(tmp_path: Path, link: str) -> None:
    logs = LogFolder(tmp_path)
    handled = f"{HEAD}\n  earlier\nKeyError: 1\nsaid between\n"
    ours = f"{HEAD}\n  first\nOSError: the cause\n\n{link}\n\n{HEAD}\n  second\nValueError: 2"
    logs.path(0).write_text(handled + ours + "\n")
    assert logs.tail(0, 3) == ours
