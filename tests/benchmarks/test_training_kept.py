"""Kept runs of the training benchmark: which are taken, which made anew, what is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.training import frozen, sources
from benchmarks.training.results import Results
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError, StavesError

NAMES = ("images", "seed 5", "4:4:8", "ours adaptive")
PLACE = Path("images/seed-5/4-4-8/ours-adaptive.json")
RUN = {"seconds": 1.25, "steps": None, "regret": {"whole": 0.1, "after_ramp": None}, "bounds": [1]}

few = settings(max_examples=20, deadline=None)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def keep(folder: Path, run: dict[str, Any] = RUN) -> Path:
    Results(folder).run(NAMES, lambda: dict(run))
    return folder / PLACE


def never() -> dict[str, Any]:
    raise AssertionError("it is kept")


def check_made_anew(content: Callable[[bytes], bytes], *says: str) -> None:
    """Whatever stands in the file: its run is made anew and kept, and one line says why."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder, told = Path(name), []
        path = keep(folder)
        patch.setattr("builtins.print", lambda *words, **options: told.append(" ".join(words)))
        path.write_bytes(content(path.read_bytes()))
        anew = Results(folder).run(NAMES, lambda: {"seconds": 2.5})
        assert anew["seconds"] == 2.5
        assert Results(folder).run(NAMES, never) == anew
        assert len(told) == 2  # why, and that the run is made
        assert all(words in told[0] for words in says)
        assert "\n" not in told[0]
        assert not list(folder.rglob("*.unfinished"))


def test_a_kept_run_comes_back_as_it_was_made(tmp_path: Path) -> None:
    run = {**RUN, "batches": {64: 1.5}, "loss": float("inf"), "small": 0.1 + 0.2}
    made = Results(tmp_path).run(NAMES, lambda: dict(run))
    results = Results(tmp_path)
    assert results.run(NAMES, never) == made
    assert made["batches"] == {"64": 1.5}
    assert results.cpu_seconds == made["cpu_seconds"]


@few
@given(st.floats(0, 1, exclude_max=True))
def test_a_cut_file_is_damaged(share: float) -> None:
    check_made_anew(lambda whole: whole[: int(share * len(whole))], str(PLACE), "is damaged")


@few
@given(st.binary(max_size=60))
def test_any_bytes_are_damaged(content: bytes) -> None:
    check_made_anew(lambda _: content, str(PLACE), "is damaged")


@few
@given(json_values)
def test_any_other_document_is_damaged(document: Any) -> None:
    check_made_anew(lambda _: json.dumps(document).encode(), str(PLACE), "is damaged")


def test_a_document_too_deep_to_read_is_damaged() -> None:
    check_made_anew(lambda _: b"[" * 100_000, str(PLACE), "is damaged")


@pytest.mark.parametrize("key", [*RUN, "cpu_seconds", "seal", "declaration"])
def test_a_run_that_lacks_a_key_is_damaged(key: str) -> None:
    def without(whole: bytes) -> bytes:
        run = json.loads(whole)
        del run[key]
        return json.dumps(run).encode()

    check_made_anew(without, str(PLACE), "is damaged")


@few
@given(st.sampled_from([*RUN, "cpu_seconds", "seal"]), json_values)
def test_a_run_with_another_value_is_damaged(key: str, value: Any) -> None:
    def changed(whole: bytes) -> bytes:
        run = json.loads(whole)
        return json.dumps(run | {key: [value, "edited"]}).encode()

    check_made_anew(changed, str(PLACE), "is damaged")


@pytest.mark.parametrize(
    ("key", "says"),
    [("code", "kept runs of other code are made anew"), ("declaration", "of another declaration")],
)
@pytest.mark.parametrize("value", ["0" * 64, None, 7])
def test_runs_of_another_version_are_made_anew(key: str, says: str, value: Any) -> None:
    def other(whole: bytes) -> bytes:
        return json.dumps(json.loads(whole) | {key: value}).encode()

    check_made_anew(other, says)


def test_runs_kept_before_code_was_told_count_as_of_other_code() -> None:
    old = {**RUN, "cpu_seconds": 3.0, "declaration": frozen.fingerprint()}
    check_made_anew(lambda _: json.dumps(old).encode(), "kept runs of other code are made anew")


def test_other_code_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [(*NAMES[:-1], name) for name in ("one", "two", "three")]
    before = Results(tmp_path)
    for names in others:
        before.run(names, lambda: {"seconds": 1.0})
    monkeypatch.setattr(sources, "fingerprint", lambda: "edited")
    capsys.readouterr()
    after = Results(tmp_path)
    for names in others:
        assert after.run(names, lambda: {"seconds": 2.0})["seconds"] == 2.0
    said = capsys.readouterr().err
    assert said.count("kept runs of other code are made anew") == 1
    assert "damaged" not in said


def test_code_is_other_code_when_any_of_it_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, staves = tmp_path / "mine", tmp_path / "staves"
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(sources._HERE, mine, ignore=left_out)
    for room in (*sources.ROOMS, "documents"):
        shutil.copytree(sources._STAVES / room, staves / room, ignore=left_out)
    own = sources.fingerprint()
    monkeypatch.setattr(sources, "_HERE", mine)
    monkeypatch.setattr(sources, "_STAVES", staves)
    assert sources.fingerprint() == own, "wherever it lies"
    counted = [mine / "runs.py", mine / "cells.py", mine / "systems" / "lb_bsp.py"]
    counted += [path for room in sources.ROOMS for path in (staves / room).rglob("*.py")]
    for path in counted:
        text = path.read_text()
        path.write_text(f"{text}x = 1\n")
        assert sources.fingerprint() != own, path
        path.write_text(text)
    (mine / "systems" / "another.py").write_text("")
    assert sources.fingerprint() != own
    (mine / "systems" / "another.py").unlink()
    for path in (mine / "page.py", staves / "documents" / "_read.py"):
        path.write_text("")
    assert sources.fingerprint() == own


def a_folder(path: Path) -> None:
    path.mkdir(parents=True)


def a_pipe(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


def a_file_above(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("x")


def a_folder_beside(path: Path) -> None:
    path.with_suffix(".unfinished").mkdir(parents=True)


@pytest.mark.parametrize("stands", [a_folder, a_pipe, a_file_above, a_folder_beside])
@pytest.mark.parametrize("again", [(), NAMES[-1:]], ids=["", "again"])
def test_what_cannot_be_replaced_is_refused_before_the_run_is_made(
    tmp_path: Path, stands: Callable[[Path], None], again: tuple[str, ...]
) -> None:
    stands(tmp_path / PLACE)
    with pytest.raises(InputError) as caught:
        Results(tmp_path, again).run(NAMES, never)
    assert str((tmp_path / PLACE).parent) in caught.value.message
    assert "--results FOLDER" in str(caught.value.hint)


@pytest.mark.parametrize("folder", ["/proc/nope", "file", "file/below", "n" * 300])
def test_a_folder_that_cannot_be_written_to_is_refused_at_once(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match="cannot be written to") as caught:
        Results(tmp_path / folder)
    assert caught.value.exit_code == 2
    assert (tmp_path / "file").read_text() == "precious"


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    Results(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("first", [False, True], ids=["while it is kept", "before it is made"])
def test_on_a_full_disk_earlier_runs_are_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, first: bool
) -> None:
    kept = keep(tmp_path).read_bytes()
    results = Results(tmp_path, again=NAMES[-1:])
    write = Path.write_text

    def half(path: Path, text: str) -> int:
        if len(text) > 2 or first:
            write(path, text[: len(text) // 2])
            raise OSError(number, os.strerror(number), str(path))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(StavesError, match="the disk is full; earlier runs are kept") as caught:
        results.run(NAMES, never if first else lambda: dict(RUN))
    assert caught.value.exit_code == 1
    assert (tmp_path / PLACE).read_bytes() == kept
    assert not list(tmp_path.rglob("*.unfinished"))


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Results(tmp_path).run(NAMES, interrupted)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
