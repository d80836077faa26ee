"""However a batch is split, training is that of one process with the whole batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from staves.training import permutation
from tests.training.launch import SCRIPTS, staves_run
from tests.training.scripts.equality import GRADIENTS, RUNS, examples, schedule_of
from tests.training.scripts.models import (
    BATCH,
    EPOCHS,
    SAMPLES,
    SEED,
    Examples,
    build,
    loss_of,
    relative_error,
    tag_loss,
)

Tensors = list[torch.Tensor]


@cache
def one_process_gradient(name: str) -> Tensors:
    """Return the gradient of the first batch, in plain torch."""
    kind, dtype, _ = GRADIENTS[name]
    model, data = build(kind, dtype), examples(name)
    first = torch.from_numpy(permutation(SEED, 0, SAMPLES)[:BATCH])
    outputs = model(data.inputs[first])
    wanted = data.tags[first] if kind == "tagger" else data.classes[first]
    loss = (tag_loss if kind == "tagger" else loss_of)(outputs, wanted)
    return list(torch.autograd.grad(loss, list(model.parameters())))


@cache
def one_process_parameters(dtype: torch.dtype, schedule_name: str) -> Tensors:
    """Return the parameters after all epochs, in plain torch."""
    model, data = build("mlp", dtype), Examples(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = schedule_of(schedule_name, optimizer)
    for epoch in range(EPOCHS):
        for batch in torch.split(torch.from_numpy(permutation(SEED, epoch, SAMPLES)), BATCH):
            optimizer.zero_grad()
            loss_of(model(data.inputs[batch]), data.classes[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize(
    "split", ["24,8", pytest.param("20,7,5", marks=pytest.mark.soak), "17,9,5,1", "20,12,0"]
)
def test_any_split_trains_as_one_process_does(split: str, tmp_path: Path) -> None:
    file = tmp_path / "results.pt"
    world = split.count(",") + 1
    done = staves_run(tmp_path, SCRIPTS / "equality.py", file, split, devices=world)
    # The last of the runs is the one that is reported.
    assert done.figures["steps"] == 5 * EPOCHS
    assert done.figures["samples"] == SAMPLES * EPOCHS
    results: dict[str, Tensors] = torch.load(file)
    errors: dict[str, float] = {}
    allowed: dict[str, float] = {}
    for name, (_, dtype, _) in GRADIENTS.items():
        errors[name] = relative_error(results[name], one_process_gradient(name))
        allowed[name] = 1e-6 if dtype == torch.float32 else 1e-12
    for name, (dtype, schedule_name, _, _) in RUNS.items():
        wanted = one_process_parameters(dtype, schedule_name)
        errors[name] = relative_error(results[name], wanted)
        allowed[name] = 1e-5 if dtype == torch.float32 else 1e-11
    for name, error in errors.items():
        print(f"{split}: {name}: relative error {error:.1e}")
    assert {n: e for n, e in errors.items() if not e <= allowed[n]} == {}
