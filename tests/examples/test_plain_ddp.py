"""The function API inside plain DDP: what is split unevenly trains as one process would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from examples.plain_ddp import dataset, network, rows_of, spread
from torch import nn

from tests.training.launch import ROOT, command


def test_it_trains_as_one_process_on_the_whole_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    words = [*launcher, ROOT / "examples" / "plain_ddp.py", "--slow", "0.002", "--json"]
    done = command(words, tmp_path, timeout=300)
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    steps = told["steps"]
    # Rank 1 takes twice as long for a sample, and has fewer of them.
    fast, slow = told["split"]
    assert fast + slow == 48
    assert fast > slow
    assert told["even_step_seconds"] >= told["predicted_step_seconds"]
    assert 48 < told["batch"] <= 192, "hardly learnable labels are noise: a larger batch pays"
    assert sum(steps[-1]["local_batches"]) == told["batch"]
    assert steps[-1]["learning_rate"] == pytest.approx(0.05 * told["learning_rate_factor"])
    assert len({tuple(step["local_batches"]) for step in steps}) >= 3

    model, (inputs, targets) = network(), dataset()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    cursor = 0
    for step in steps:
        batch = sum(step["local_batches"])
        rows = rows_of(cursor, batch)
        loss = nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
        assert float(loss.detach()) == pytest.approx(step["loss"], rel=1e-4)
        optimizer.param_groups[0]["lr"] = step["learning_rate"]
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        cursor += batch
    whole = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.allclose(torch.tensor(told["parameters"]), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("first", "seconds"), [([16, 16], [1.0, 2.0]), ([16, 16], [1.0, 1.0]), ([2, 2, 1], [1, 1, 9])]
)
def test_the_second_probe_is_another_split_of_the_batch(
    first: list[int], seconds: list[float]
) -> None:
    second = spread(first, seconds)
    assert sum(second) == sum(first)
    assert second != first
