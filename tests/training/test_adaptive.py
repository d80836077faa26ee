"""An adaptive batch end to end: unequal emulated devices against one process of plain torch."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import mse_loss

from staves.training import permutation
from tests.training.launch import SCRIPTS, staves_run
from tests.training.scripts.adaptive import (
    REFERENCE,
    SAMPLES,
    SEED,
    build,
    data,
    optimizer_of,
    schedule_of,
)
from tests.training.scripts.models import relative_error

EMULATED = {
    name: {
        "forward": {"fixed": "3ms", "per_sample": f"{cost}ms"},
        "backward": {"fixed": "4ms", "per_sample": f"{2 * cost}ms"},
    }
    for name, cost in (("fast", 0.05), ("slow", 0.15))
}


def train(folder: Path, devices: dict[str, int], **options: Any) -> dict[str, Any]:
    file = folder / "result.pt"
    script = SCRIPTS / "adaptive.py"
    done = staves_run(
        folder, script, file, json.dumps(options), devices=devices, emulate=EMULATED, timeout=400
    )
    assert done.status == 0, done.stderr
    result: dict[str, Any] = torch.load(file)
    return result


def replay(name: str, steps: list[dict[str, Any]]) -> list[torch.Tensor]:
    """Train in plain torch on the same batches, at the learning rates that were used."""
    module, (inputs, targets) = build(), data()
    optimizer = optimizer_of(name, module)
    for step in steps:
        order = torch.from_numpy(permutation(SEED, step["epoch"], SAMPLES))
        places = order[step["start"] : step["start"] + step["batch"]]
        optimizer.param_groups[0]["lr"] = step["rate"]
        optimizer.zero_grad()
        mse_loss(module(inputs[places]), targets[places]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return [p.detach() for p in module.parameters()]


def check_cursor(steps: list[dict[str, Any]]) -> None:
    """Within a pass every sample comes once, in order; only the last pass may be cut."""
    place = (0, 0)
    for step in steps:
        assert (step["epoch"], step["start"]) == place
        stop = step["start"] + step["batch"]
        place = (step["epoch"], stop) if stop < SAMPLES else (step["epoch"] + 1, 0)


def rates(name: str, rule: str, steps: list[dict[str, Any]]) -> list[float]:
    """The learning rates by the rules' own formulas, the schedule moved by progress."""
    optimizer = optimizer_of(name, build())
    schedule, progress, wanted = schedule_of(optimizer), 0.0, []
    optimizer.step()  # a schedule warns where it comes first
    for step in steps:
        batch, scale = max(step["batch"], REFERENCE), step["noise_scale"] or 0.0
        gain = (scale + REFERENCE) / (scale + batch) * batch / REFERENCE
        factor = gain if rule == "adascale" else (batch / REFERENCE) ** 0.5
        wanted.append(factor * optimizer.param_groups[0]["lr"])
        for _ in range(int(progress + gain) - int(progress)):
            schedule.step()
        progress += gain
    return wanted


@pytest.mark.parametrize(("name", "rule"), [("sgd", "adascale"), ("adamw", "square-root")])
def test_trains_as_one_process_with_the_same_batches(name: str, rule: str, tmp_path: Path) -> None:
    """Relative error of all parameters together at most 1e-9, in double precision."""
    result = train(tmp_path, {"fast": 2, "slow": 1}, optimizer=name, epochs=4)
    steps, report = result["steps"], result["report"]
    batches = [step["batch"] for step in steps]
    assert batches[0] == REFERENCE
    assert max(batches) > 2 * REFERENCE
    assert any(len(set(step["local_batches"])) > 1 for step in steps)
    check_cursor(steps)
    assert report["samples"] == sum(batches)
    target = 4 * -(-SAMPLES // REFERENCE)
    assert report["reference_steps"] >= target
    assert result["moves"] == target, "the schedule ends with training, not beyond"
    assert report["batch"] == sum(steps[-1]["local_batches"])
    for before, after in pairwise(steps):
        assert sum(after["local_batches"]) <= 4 * sum(before["local_batches"])
    assert [step["rate"] for step in steps] == pytest.approx(rates(name, rule, steps), rel=1e-9)
    error = relative_error(result["parameters"], replay(name, steps))
    print(f"{name}: {len(steps)} steps, batches to {max(batches)}, relative error {error:.1e}")
    assert error <= 1e-9


def test_a_device_alone_adapts_with_micro_batches(tmp_path: Path) -> None:
    result = train(tmp_path, {"fast": 1}, epochs=2, of="data", caps=[100])
    steps = result["steps"]
    assert all(step["micro_steps"] >= 2 for step in steps)
    assert max(step["batch"] for step in steps) > 2 * REFERENCE
    check_cursor(steps)
    assert result["report"]["samples"] == 2 * SAMPLES
    assert relative_error(result["parameters"], replay("sgd", steps)) <= 1e-9
