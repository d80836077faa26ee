"""Recognise handwritten digits (scikit-learn's own data): a complete training script.

Run it on one device (`python examples/digits.py`), under `torchrun`, or over unlike devices:

    staves run examples/digits.py --devices examples/demo/cluster.yaml
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves

try:
    from sklearn.datasets import load_digits
except ImportError:
    message = "scikit-learn is missing: only the dev extra brings it (pip install scikit-learn)"
    raise SystemExit(message) from None


def data() -> tuple[TensorDataset, torch.Tensor, torch.Tensor]:
    """Return the training set, and the inputs and targets of the test set (one image in six)."""
    images, targets = load_digits(return_X_y=True)
    inputs = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    labels = torch.tensor(targets)
    test = torch.arange(len(labels)) % 6 == 0
    return TensorDataset(inputs[~test], labels[~test]), inputs[test], labels[test]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


@torch.no_grad()
def accuracy(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    return float((model(inputs).argmax(1) == targets).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--batch", type=int, default=192)
    options = parser.parse_args()

    run = staves.init(batch_size=options.batch, seed=0)
    train, test_inputs, test_targets = data()
    test_inputs, test_targets = test_inputs.to(run.device), test_targets.to(run.device)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = run.loader(train)
    steps = options.epochs * len(batches)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    model, optimizer, schedule = run.prepare(model, optimizer, schedule)
    for _ in run.epochs(options.epochs):
        for inputs, targets in batches:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        run.log(accuracy=accuracy(run.unwrap(model), test_inputs, test_targets))


if __name__ == "__main__":
    main()
