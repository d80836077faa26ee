"""Worker: a small float64 training with everything that has state, at the driver's pace.

worker.py FOLDER

FOLDER/allow     steps that may be begun; without it, all
FOLDER/adaptive  where this exists, the noise scale is measured
FOLDER/stream    where this exists, the data is a stream
FOLDER/faults    JSON list of faults (see `faults.py`)
FOLDER/stall-M   member M waits in its loop while this exists
FOLDER/dawdle-M  member M evaluates slowly while this exists
FOLDER/pids/M    process id of member M
FOLDER/report.json, FOLDER/result.pt
                 what rank 0 has at the end
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import staves
from tests.elastic.scripts.faults import inject

SAMPLES, BATCH, EPOCHS, SEED = 320, 32, 40, 5
HIDDEN = 24


class Average:
    """An exponential average of parameters."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.values = [p.detach().clone() for p in module.parameters()]
        self.updates = 0

    def update(self) -> None:
        self.updates += 1
        for value, parameter in zip(self.values, self.module.parameters(), strict=True):
            value.lerp_(parameter.detach(), 0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values, "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = [value.clone() for value in state["values"]]
        self.updates = state["updates"]


class Curve:
    """The evaluated loss of every epoch, and the best."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.best = float("inf")

    def add(self, loss: float) -> None:
        self.losses.append(loss)
        self.best = min(self.best, loss)

    def state_dict(self) -> dict[str, Any]:
        return {"losses": list(self.losses), "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.losses, self.best = list(state["losses"]), state["best"]


class Stream(IterableDataset[Any]):
    """The same samples in an order of their own, another one with each pass."""

    def __init__(self, dataset: TensorDataset) -> None:
        self.dataset, self.epoch = dataset, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        for place in range(SAMPLES):
            yield self.dataset[(7 * place + self.epoch) % SAMPLES]


def allowed(path: Path) -> float:
    try:
        return int(path.read_text() or 0)
    except FileNotFoundError:  # no limit; it may go at any time
        return float("inf")


def pace(folder: Path, member: str, step: int) -> None:
    """Wait here, as slow user code would, until the driver lets this step begin."""
    stall, allow = folder / f"stall-{member}", folder / "allow"
    if stall.exists():
        (folder / f"stalled-{member}").touch()
    while stall.exists() or step >= allowed(allow):
        time.sleep(0.003)


def dawdle(folder: Path, member: str) -> None:
    """Evaluate slowly, as long as the driver wants this to last."""
    if (folder / f"dawdle-{member}").exists():
        (folder / f"dawdling-{member}").touch()
        time.sleep(0.25)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    inputs = torch.randn(SAMPLES, 8, generator=generator, dtype=torch.float64)
    return inputs, torch.tanh(inputs[:, :3] * inputs[:, 3:6]).sum(1, keepdim=True)


def main() -> None:
    torch.set_num_threads(1)  # many processes share few cores
    folder = Path(sys.argv[1])
    member = os.environ.get("STAVES_MEMBER", "alone")
    (folder / "pids").mkdir(exist_ok=True)
    (folder / "pids" / member).write_text(str(os.getpid()))
    with (folder / "once-calls").open("a") as calls:
        staves.Run.once(lambda: print(member, file=calls, flush=True))
    adaptive = (folder / "adaptive").exists()
    batch = staves.Adaptive(BATCH, max=BATCH) if adaptive else BATCH
    run = staves.init(batch_size=batch, seed=SEED)
    torch.manual_seed(SEED if run.is_main else 77)  # rank 0's parameters must win
    module = nn.Sequential(
        nn.Linear(8, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)
    ).double()
    body = torch.optim.SGD(module[:3].parameters(), lr=0.05, momentum=0.9)
    head = torch.optim.AdamW(module[3:].parameters(), lr=0.005)
    schedule = CosineAnnealingLR(body, T_max=EPOCHS * SAMPLES // BATCH)
    average, curve = Average(module), Curve()
    fault = inject(folder, member, body, run)
    inputs, targets = data()
    model, body_, head_, schedule_ = run.prepare(module, body, head, schedule, bucket_cap_mb=0.001)
    dataset = TensorDataset(inputs, targets)
    batches = run.loader(Stream(dataset) if (folder / "stream").exists() else dataset)
    run.register("average", average)
    run.register("curve", curve)
    run.on_commit(average.update)
    norms_seen = 0
    for _ in run.epochs(EPOCHS):
        for x, y in batches:
            pace(folder, member, run.committed_steps)
            fault.before_step()
            # A device alone needs two micro-batches for its noise scale.
            assert run.boundary or adaptive, "no accumulation here: every batch is its step's last"
            assert not run.committed, "no backward pass has reduced it yet"
            body_.zero_grad()
            head_.zero_grad()
            run.backward(nn.functional.mse_loss(model(x), y))
            norm = run.clip_grad_norm_(0.5)
            assert (norm is not None) == run.committed, "a void step is not clipped"
            norms_seen += norm is not None
            with contextlib.suppress(ArithmeticError):  # as a script might that "handles" errors
                body_.step()
            head_.step()
            schedule_.step()
            fault.after_step()
        with torch.no_grad():
            parts = []
            for x, y in run.evaluate(DataLoader(TensorDataset(inputs, targets), batch_size=10)):
                parts.append(float(nn.functional.mse_loss(module(x), y)))
                dawdle(folder, member)
            curve.add(sum(parts) / len(parts))
    if run.is_main:
        (folder / "report.json").write_text(json.dumps(run.report()))
        result = {
            "parameters": [p.detach().clone() for p in module.parameters()],
            "average": average.state_dict(),
            "curve": curve.state_dict(),
            "body": body.state_dict(),
            "head": head.state_dict(),
            "schedule": schedule.state_dict(),
            "steps": run.committed_steps,
        }
        torch.save(result, folder / "result.part")
        (folder / "result.part").rename(folder / "result.pt")


if __name__ == "__main__":
    main()
