"""The training benchmark's reckoning: bounds, regret, crossing, averages, and kept runs."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from benchmarks.training.cells import ceiling
from benchmarks.training.declared import MIXES, WORKLOADS, truth
from benchmarks.training.evaluation import Evaluator
from benchmarks.training.judged import judge
from benchmarks.training.report import summary
from benchmarks.training.results import Results
from benchmarks.training.runs import regret, trajectory
from benchmarks.training.workloads import Batched, Task
from torch import nn

from staves.convergence import efficiency
from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    even_split,
    integer_split,
)
from staves.training import VirtualStep, VirtualTruth

TINY = WORKLOADS[0]
ROOT = Path(__file__).parents[2]
THREE = VirtualTruth(
    StepTimeModel(
        tuple(
            Device(f"d{i}", "x", Line(0.01, each), Line(0.02, 2 * each))
            for i, each in enumerate((0.001, 0.002, 0.005))
        ),
        Communication((0.5, 1.0), (0.02, 0.01)),
    )
)


def splits(batch: int) -> list[tuple[int, ...]]:
    return [(a, b, batch - a - b) for a in range(batch + 1) for b in range(batch + 1 - a)]


@pytest.mark.parametrize("batch", [3, 14, 30])
def test_the_bound_is_that_of_brute_force(batch: int) -> None:
    model = THREE.model
    best = min(model.step_seconds(split) for split in splits(batch))
    even = min(
        model.step_seconds(split)
        for split in set(itertools.permutations([batch // 3 + (i < batch % 3) for i in range(3)]))
    )
    assert integer_split(model, batch).step_seconds == pytest.approx(best)
    assert even_split(model, batch).step_seconds >= even - 1e-12


@pytest.mark.parametrize("mix", MIXES, ids=lambda m: m.name)
def test_the_ceiling_is_the_bound_of_great_batches(mix: Any) -> None:
    of = truth(next(w for w in WORKLOADS if w.profile == "bert"), mix)
    model, batch = of.at(0, 0.0), 40_000_000
    ratio = integer_split(model, batch).step_seconds / even_split(model, batch).step_seconds
    assert ceiling(of) == pytest.approx(1 - ratio, abs=1e-4)


def step(number: int, split: tuple[int, ...], clock: float, scale: float | None) -> VirtualStep:
    seconds = THREE.model.step_seconds(split)
    return VirtualStep(number, 0, split, 1, 1.0, seconds, 0.0, clock, 1.0, scale)


def test_regret_is_goodput_lost_by_brute_force() -> None:
    workload = replace(TINY, reference=4, max_batch=24)
    scale = 12.0
    goodput = {
        split: sum(split) / THREE.model.step_seconds(split) * efficiency(scale, sum(split), 4)
        for batch in range(4, 25)
        for split in splits(batch)
    }
    best = max(goodput, key=lambda split: goodput[split])
    poor = (2, 1, 1)
    steps = [step(0, poor, 0.1, None), step(1, poor, 0.2, scale), step(2, best, 0.3, scale)]
    seconds = [each.seconds for each in steps]
    lost = sum(seconds[:2]) * (goodput[best] - goodput[poor])
    found = regret(workload, THREE, steps)
    assert found.whole == pytest.approx(lost / (sum(seconds) * goodput[best]))
    assert found.after_ramp == pytest.approx(0.0, abs=1e-12)
    assert regret(workload, THREE, steps[:2]).after_ramp is None


def test_the_crossing_is_interpolated_between_two_evaluations() -> None:
    model = nn.Linear(1, 1, bias=False)
    held_out = (torch.zeros(1),)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        return cast("nn.Linear", model).weight.sum()

    task = Task(model, torch.optim.SGD(model.parameters()), Batched(torch.zeros(1)), held_out, loss)
    workload = replace(TINY, reference=1, target=0.25, most_steps=10**9)
    evaluator = Evaluator(task, workload)
    # So large a step of progress that the average is the weight itself.
    for number, (weight, clock) in enumerate([(1.0, 10.0), (0.5, 20.0), (0.0, 40.0)]):
        with torch.no_grad():
            model.weight.fill_(weight)
        made = SimpleNamespace(number=number, progress=1e6 * (number + 1), batch=10**6, clock=clock)
        evaluator.after(cast("VirtualStep", made))
    assert evaluator.over
    assert evaluator.steps == pytest.approx(2.5)
    assert evaluator.seconds == pytest.approx(30.0)


def test_a_trajectory_has_the_same_end_whenever_it_is_made() -> None:
    workload = replace(TINY, target=2.3, reference=32, max_batch=32, most_steps=300)
    one, same = trajectory(workload, 1, 32), trajectory(workload, 1, 32)
    assert one == same
    assert one.steps is not None
    assert trajectory(replace(workload, target=-1.0, most_steps=20), 1, 32).steps is None


def test_runs_are_kept_and_made_again_when_asked(tmp_path: Path) -> None:
    made: list[str] = []

    def run(name: str) -> dict[str, Any]:
        made.append(name)
        return {"seconds": len(made)}

    first = Results(tmp_path).run(("w", "4:4:8", "ours"), lambda: run("ours"))
    assert Results(tmp_path).run(("w", "4:4:8", "ours"), lambda: run("no")) == first
    again = Results(tmp_path, again=("ours",))
    assert again.run(("w", "4:4:8", "ours"), lambda: run("anew"))["seconds"] == 2
    assert again.run(("w", "4:4:8", "ours"), lambda: run("no"))["seconds"] == 2
    assert made == ["ours", "anew"]
    (path,) = tmp_path.rglob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"declaration": "another"}))
    assert Results(tmp_path).run(("w", "4:4:8", "ours"), lambda: run("new"))["seconds"] == 3


def cells(**seconds: list[float | None]) -> list[dict[str, Any]]:
    """A workload on a mix with these seconds of each system by seed."""
    regret = {"whole": 0.08, "after_ramp": 0.02}
    adapted = {"regret": regret, "batches": {"last": 64}, "changes": 3, "steps": 9.0}
    names = {
        "ddp": "ddp at 8",
        "large": "ddp at 32",
        "even": "adaptdl-like",
        "simple": "proportional adaptive",
        "ours": "ours adaptive",
    }
    return [
        {
            "workload": "w",
            "mix": "m",
            "seed": seed,
            "reference": 8,
            "ceiling": 0.5,
            "bounds": {8: 1.5, 64: 1.8, 512: 2.0},
            "balance": {
                "8": {"ours": {"whole": 1.3, "second_half": 1.47}},
                "64": {"ours": {"whole": 1.3, "second_half": 1.8}},
                "512": {"ours": {"whole": 1.3, "second_half": 1.8}},
            },
            "trajectories": [
                {"batch": 8, "steps": 100.0, "noise_scale": 200.0},
                {"batch": 32, "steps": 30.0, "noise_scale": 300.0},
            ],
            "systems": {
                names[name]: {"seconds": of[seed]} | ({} if "ddp" in names[name] else adapted)
                for name, of in seconds.items()
            },
        }
        for seed in range(len(seconds["ddp"]))
    ]


def test_ratios_are_paired_by_seed_and_their_median_counts() -> None:
    ddp: list[float | None] = [100.0, 200.0, 400.0]
    ours: list[float | None] = [40.0, 60.0, 200.0]
    (row,) = summary(
        cells(ddp=ddp, large=[70.0, 90.0, 200.0], even=[60.0, 80.0, 210.0], simple=ours, ours=ours)
    )
    assert row["less_time"]["ddp at 8"] == pytest.approx({"least": 0.5, "median": 0.6, "most": 0.7})
    assert row["ddp_best"] == 32
    assert row["ddp_largest_efficient"] == 8  # 960 samples against 800
    assert row["slower_beyond_noise"] == {"adaptdl-like": False, "proportional adaptive": False}
    held = {verdict["what"]: verdict["held"] for verdict in judge([row])}
    assert held["less time than DDP at B0: median of cells"]
    assert not held["less time than DDP at B0: best cell"]
    shares = [v for v in judge([row]) if "T_even" in v["what"]]
    assert [v["value"] for v in shares] == pytest.approx([0.98, 1.0, 0.9])
    assert [v["held"] for v in shares] == [True, True, False]


def test_slower_beyond_noise_is_a_matter_of_all_seeds() -> None:
    ddp: list[float | None] = [100.0, 100.0, 100.0]
    rival: list[float | None] = [50.0, 60.0, 70.0]
    always: list[float | None] = [55.0, 67.0, 78.0]
    mixed: list[float | None] = [60.0, 55.0, 75.0]
    for ours, slower in ((always, True), (mixed, False)):
        (row,) = summary(cells(ddp=ddp, large=ddp, even=ddp, simple=rival, ours=ours))
        assert row["slower_beyond_noise"]["proportional adaptive"] is slower


def test_a_missed_target_has_no_ratio_and_is_named() -> None:
    ddp: list[float | None] = [100.0, 100.0]
    (row,) = summary(cells(ddp=ddp, large=ddp, even=[None, 80.0], simple=ddp, ours=ddp))
    assert row["less_time"]["adaptdl-like"] is None
    assert row["slower_beyond_noise"]["adaptdl-like"] is None
    (behind,) = summary(cells(ddp=ddp, large=ddp, even=ddp, simple=ddp, ours=[None, 10.0]))
    assert behind["slower_beyond_noise"]["adaptdl-like"] is True
    worst = [v for v in judge([row, row, behind]) if v["what"].endswith("B0: median of cells")]
    assert [v["value"] for v in worst] == [0.0]
    named = next(v for v in judge([row]) if v["what"] == "targets not reached")
    assert named["value"] == "adaptdl-like in w on m (1 of 2)"
    assert math.isclose(row["systems"]["adaptdl-like"]["reached"], 1)


def document() -> dict[str, Any]:
    """What a run of one cell prints."""
    ddp: list[float | None] = [100.0, 90.0]
    ran = cells(ddp=ddp, large=ddp, even=ddp, simple=ddp, ours=[50.0, 45.0])
    ran = [{**cell, "cpu_seconds": 60.0} for cell in ran]
    rows = summary(ran)
    return {
        "declaration": {"frozen_on": "today", "fingerprint": "f", "unchanged": True},
        "run": {"workloads": ["w"], "mixes": ["m"], "seeds": [0, 1]},
        "verdicts": judge(rows),
        "summary": rows,
        "cells": ran,
    }


def make_page(*arguments: object) -> tuple[int, str]:
    """Return the exit code, and what is said."""
    command = [sys.executable, "-m", "benchmarks.training.page", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1"),
        ("[]", "holds no results"),
        ('{"summary": []}', "holds no results"),
        ("whole", "is without images, language, speech"),
    ],
)
def test_a_page_is_made_of_whole_results_only(tmp_path: Path, text: str, message: str) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps(document()) if text == "whole" else text)
    code, said = make_page(results, tmp_path)
    assert code == 2
    assert message in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [results]
