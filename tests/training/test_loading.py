"""Every sample once an epoch, in one order, over real processes and loader workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from staves.training import apportion, permutation
from tests.training.launch import SCRIPTS, staves_run
from tests.training.scripts.loading import BATCH, CASES, rotating


def test_every_sample_once_an_epoch_whatever_happens(tmp_path: Path) -> None:
    done = staves_run(tmp_path, SCRIPTS / "loading.py", tmp_path, devices={"local-cpu": 2})
    assert done.status == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    for name, case in CASES.items():
        check(name, case, [rank[name] for rank in ranks])
    assert ranks[0]["replanned"]["stages"][:3] == ["even", "spread", "optimal"]
    splits = [step["split"] for epoch in ranks[0]["replanned"]["epochs"] for step in epoch]
    assert any(split != [4, 4] for split in splits)  # the second probe, however busy we are
    for rank in ranks:
        assert rank["nested"] == ["Pair", "list"]
        assert len(rank["misuse"]) == 1
        assert "instead of loss.backward()" in rank["misuse"][0]


def check(name: str, case: dict[str, Any], ranks: list[Any]) -> None:
    """Compare what both ranks loaded with the permutation, step by step."""
    length, committed = case["length"], 0
    whole = length // BATCH if case.get("drop_last") else -(-length // BATCH)
    assert ranks[0]["length"] == whole, name
    for epoch, both in enumerate(zip(*(rank["epochs"] for rank in ranks), strict=True)):
        order = permutation(3, epoch, length, shuffle=case.get("shuffle", True)).tolist()
        position = 0
        for step, (first, second) in enumerate(zip(*both, strict=True)):
            assert first["split"] == second["split"], (name, epoch, step)
            if case["split"] == "rotating":
                assert first["split"] == rotating(committed), (name, epoch, step)
            local = apportion(first["split"], min(BATCH, length - position))
            parts = 1 if "cap" not in case else -(-max(first["split"]) // case["cap"])
            broken = case.get("steps") == step + 1 and "micro" in case
            for own, count in zip((first, second), local, strict=True):
                assert len(own["samples"]) == (case["micro"] if broken else parts), name
                for part, loaded in enumerate(own["samples"]):
                    start, stop = count * part // parts, count * (part + 1) // parts
                    wanted = order[position + start : position + stop]
                    if wanted:  # else it is something to run on, which weighs nothing
                        assert loaded == wanted, (name, epoch, step)
                    assert len(loaded) == max(1, len(wanted))
                    assert len(loaded) <= case.get("cap", BATCH)
                position += count
            committed += not broken
        if "steps" not in case:
            assert position == (whole * BATCH if case.get("drop_last") else length), name
        else:
            assert position == case["steps"] * BATCH, name
    assert [rank["steps"] for rank in ranks] == [committed, committed], name
