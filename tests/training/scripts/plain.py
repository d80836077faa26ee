"""A training script as users write them; how it is started makes no difference to it.

plain.py FILE
"""

from __future__ import annotations

import sys

import torch

import staves
from tests.training.scripts.models import BATCH, Examples, build, loss_of


def main() -> None:
    run = staves.init(batch_size=BATCH, seed=4)
    model = build("mlp", torch.float64, seed=4)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 10, 0.5)
    model, optimizer, schedule = run.prepare(model, sgd, schedule)
    batches = run.loader(Examples(torch.float64))
    for _ in run.epochs(8):
        for inputs, classes, _tags in batches:
            optimizer.zero_grad()
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
            schedule.step()
        run.log(rate=optimizer.param_groups[0]["lr"])
    if run.is_main:
        report = run.report()
        torch.save(
            {
                "world": run.world_size,
                "parameters": list(run.unwrap(model).state_dict().values()),
                "loss": report["loss"],
                "steps": report["steps"],
            },
            sys.argv[1],
        )


if __name__ == "__main__":
    main()
