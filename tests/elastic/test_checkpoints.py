"""Checkpoints on disk (rule 15): whole or not at all, and only by whom they belong to."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from staves.errors import TrainingError
from staves.training._checkpoint import Checkpoints


def state(step: int) -> dict[str, Any]:
    return {"progress": {"step": step}, "model": {"w": torch.full((64,), float(step))}}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def kept(tmp_path: Path, said: list[str]) -> Checkpoints:
    checkpoints = make(tmp_path, said, "run#1")
    checkpoints.claim()
    return checkpoints


def make(folder: Path, said: list[str], token: str, keep: int = 3) -> Checkpoints:
    return Checkpoints(folder, every=1.0, keep=keep, token=token, say=said.append)


def save(checkpoints: Checkpoints, *steps: int) -> None:
    for step in steps:
        checkpoints.save(state(step), step=step, wait=True)


def step_of(checkpoints: Checkpoints) -> int | None:
    latest = checkpoints.latest()
    return None if latest is None else latest["progress"]["step"]


def truncate(path: Path) -> None:
    os.truncate(path / "state.pt", (path / "state.pt").stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray((path / "state.pt").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "state.pt").write_bytes(data)


def lose_state(path: Path) -> None:
    (path / "state.pt").unlink()


def half_write(path: Path) -> None:
    (path / "manifest.json").unlink()


def write_manifest(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "manifest.json").write_text(text)

    return write


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "has another hash": flip,
    "is missing": lose_state,
    "has no manifest": half_write,
    "manifest is damaged": write_manifest('{"step": 20, "fi'),
    "manifest is damaged (list)": write_manifest("[1, 2]"),
    "manifest is damaged (text)": write_manifest('{"files": {"state.pt": "x"}}'),
    "manifest is damaged (number)": write_manifest('{"files": 3}'),
    "names no state": write_manifest('{"step": 20, "files": {}}'),
    "manifest is damaged (bytes)": write_manifest("\0\0"),
}


@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_one_is_skipped_and_that_is_said(
    name: str, kept: Checkpoints, said: list[str]
) -> None:
    save(kept, 10, 20)
    DAMAGES[name](kept.folder / "step-00000020")
    assert step_of(kept) == 10
    assert len(said) == 1
    assert "step-00000020 is skipped" in said[0]
    assert name.split(" (")[0] in said[0]


def test_a_part_folder_is_no_checkpoint(kept: Checkpoints, said: list[str]) -> None:
    save(kept, 10)
    part = kept.folder / ".step-00000020.1.part"
    part.mkdir()
    (part / "state.pt").write_bytes(b"half")
    assert step_of(kept) == 10
    assert said == []


def test_all_damaged_is_none(kept: Checkpoints, said: list[str]) -> None:
    save(kept, 10, 20)
    for path in kept.folder.glob("step-*"):
        flip(path)
    assert step_of(kept) is None
    assert len(said) == 2


def test_the_newest_are_kept(tmp_path: Path, said: list[str]) -> None:
    checkpoints = make(tmp_path, said, "run#1", keep=2)
    checkpoints.claim()
    save(checkpoints, 1, 2, 3, 4)
    assert sorted(p.name for p in tmp_path.glob("step-*")) == ["step-00000003", "step-00000004"]


def test_damaged_ones_do_not_push_out_good_ones(tmp_path: Path, said: list[str]) -> None:
    checkpoints = make(tmp_path, said, "run#1", keep=1)
    checkpoints.claim()
    save(checkpoints, 30)
    half_write(tmp_path / "step-00000030")
    save(checkpoints, 10)  # trained again from an older state
    assert step_of(checkpoints) == 10


def test_saved_again_after_a_rollback(kept: Checkpoints) -> None:
    save(kept, 10)
    kept.save({**state(10), "again": True}, step=10, wait=True)
    latest = kept.latest()
    assert latest is not None
    assert latest["again"] is True


def full_save(*arguments: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def torch_full_save(*arguments: object, **options: object) -> None:
    raise RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")


@pytest.mark.parametrize(
    ("owner", "name", "failing"),
    [(torch, "save", full_save), (torch, "save", torch_full_save), (os, "fsync", full_save)],
    ids=["save", "torch's own", "fsync"],
)
def test_a_full_disk_keeps_the_old_one_and_warns(
    owner: Any,
    name: str,
    failing: Callable[..., None],
    kept: Checkpoints,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(kept, 10)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing)
        save(kept, 20)
    assert step_of(kept) == 10
    assert "warning: checkpoint at step 20 was not written" in said[0]
    assert not list(kept.folder.glob(".*.part"))
    save(kept, 30)
    assert step_of(kept) == 30


def test_rule_12_a_stale_process_cannot_write(tmp_path: Path, said: list[str]) -> None:
    stale, owner = make(tmp_path, said, "run#1"), make(tmp_path, said, "run#2")
    stale.claim()
    save(stale, 10)
    owner.claim()
    save(stale, 20)
    assert step_of(owner) == 10
    assert "belongs to another attempt or run" in said[0]
    with pytest.raises(TrainingError, match="belongs to another run or attempt"):
        stale.is_due()
    save(owner, 20)
    assert step_of(owner) == 20
    owner.is_due()


def test_it_loads_with_weights_only(kept: Checkpoints) -> None:
    save(kept, 10)
    path = kept.folder / "step-00000010"
    loaded = torch.load(path / "state.pt", weights_only=True)
    assert torch.equal(loaded["model"]["w"], state(10)["model"]["w"])
    assert json.loads((path / "manifest.json").read_text())["step"] == 10


def test_what_is_not_plain_is_refused(kept: Checkpoints) -> None:
    with pytest.raises(TrainingError, match=r"state\.registered\.it holds a object"):
        kept.save({"registered": {"it": object()}}, step=1)


def test_the_copy_is_of_the_moment(kept: Checkpoints) -> None:
    """Training changes the tensors in place while the write goes on."""
    live = state(10)
    kept.save(live, step=10)
    live["model"]["w"].zero_()
    kept.join()
    latest = kept.latest()
    assert latest is not None
    assert torch.equal(latest["model"]["w"], state(10)["model"]["w"])
