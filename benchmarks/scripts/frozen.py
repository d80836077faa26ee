"""Train a small CNN with a learning rate of 0, so that its noise scale stays what it is.

frozen.py FILE OPTIONS     OPTIONS: JSON, see `Options`
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import staves

SEED = 2


@dataclass(frozen=True)
class Options:
    """`warm_up`: steps trained before, in which the noise scale grows."""

    optimizer: str = "sgd"
    batch: int = 64
    split: tuple[int, ...] | None = None
    cap: int | None = None
    warm_up: int = 0
    epochs: int = 20


def network() -> nn.Module:
    """Return 1,500 parameters or so, in double precision."""
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.Tanh(), nn.Conv2d(8, 8, 3, stride=2), nn.Tanh(), nn.Flatten(),
        nn.Linear(32, 10),
    ).double()  # fmt: skip


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the 1,797 digits of scikit-learn."""
    inputs, targets = load_digits(return_X_y=True)
    return torch.tensor(inputs).view(-1, 1, 8, 8) / 8 - 1, torch.tensor(targets)


def trained(steps: int) -> nn.Module:
    """Return the network after so many steps, the same in every process."""
    model, (inputs, targets) = network(), digits()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for batch in torch.randint(len(inputs), (steps, 64), generator=torch.Generator()):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def main() -> None:
    options = Options(**json.loads(sys.argv[2]))
    torch.set_num_threads(1)
    run = staves.init(
        batch_size=staves.Adaptive(options.batch, max=options.batch),
        seed=SEED,
        split=options.split or "even",
        max_local_batch=options.cap,
    )
    module = trained(options.warm_up)
    kind: Any = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[options.optimizer]
    own = kind(module.parameters(), lr=0.0)
    model, optimizer = run.prepare(module, own, bucket_cap_mb=0.002)
    batches = run.loader(torch.utils.data.TensorDataset(*digits()))
    for _ in run.epochs(options.epochs):
        for inputs, targets in batches:
            optimizer.zero_grad()
            run.backward(functional.cross_entropy(model(inputs), targets))
            optimizer.step()
    if run.is_main:
        moments = [own.state[p].get("exp_avg_sq") for p in module.parameters()]
        adaptation = run._session.progress.adaptation
        assert adaptation is not None
        running = adaptation.running.to_document()
        torch.save({"report": run.report(), "moments": moments, "running": running}, sys.argv[1])


if __name__ == "__main__":
    main()
