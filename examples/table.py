"""A table: tell malignant from benign tumours by thirty measurements (scikit-learn's own data).

staves run examples/table.py --devices examples/demo/cluster.yaml
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves

try:
    from sklearn.datasets import load_breast_cancer
except ImportError:
    message = "scikit-learn is missing: only the dev extra brings it (pip install scikit-learn)"
    raise SystemExit(message) from None


def data() -> tuple[TensorDataset, torch.Tensor, torch.Tensor]:
    """Return the training set, and the inputs and targets of the test set (one row in six)."""
    table, targets = load_breast_cancer(return_X_y=True)
    inputs = torch.tensor(table, dtype=torch.float32)
    labels = torch.tensor(targets)
    test = torch.arange(len(labels)) % 6 == 0
    inputs = (inputs - inputs[~test].mean(0)) / inputs[~test].std(0)
    return TensorDataset(inputs[~test], labels[~test]), inputs[test], labels[test]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )


@torch.no_grad()
def accuracy(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    return float((model(inputs).argmax(1) == targets).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=96)
    options = parser.parse_args()

    run = staves.init(batch_size=options.batch, seed=0)
    train, test_inputs, test_targets = data()
    test_inputs, test_targets = test_inputs.to(run.device), test_targets.to(run.device)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    batches = run.loader(train)
    model, optimizer = run.prepare(model, optimizer)
    for _ in run.epochs(options.epochs):
        for inputs, targets in batches:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        run.log(accuracy=accuracy(run.unwrap(model), test_inputs, test_targets))


if __name__ == "__main__":
    main()
