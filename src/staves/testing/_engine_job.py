"""Drives one job on any engine: launch, pace its script, wait for conditions, prove its ledger."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import staves
from staves.engines._base import Engine, Launch, Status
from staves.hardware import Device
from staves.membership import prove

PATIENCE = 120.0
"""Seconds to wait for a condition: far beyond what a quiet machine needs."""

_LOOK = 0.02  # seconds between two looks
_CRAWL = 0.2  # seconds for a step while a condition is waited for

SCRIPT = '''\
"""A small training whose steps begin as FOLDER/allow lets them."""
import os, sys, time
from pathlib import Path
import torch
import staves

torch.set_num_threads(1)
folder = Path(sys.argv[1])
run = staves.init(batch_size=12, seed=3)
inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
module = torch.nn.Linear(4, 1)
model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.01))


class Fault:
    """Dies as its state is taken for a checkpoint."""

    def state_dict(self):
        if (folder / "die").exists():
            (folder / "die").unlink()
            os.kill(os.getpid(), 9)
        return {}

    def load_state_dict(self, state):
        pass


run.register("fault", Fault())
batches = run.loader(torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True)))
for epoch in run.epochs(30):
    for x, y in batches:
        while (folder / "allow").exists():
            if run.committed_steps < int((folder / "allow").read_text() or 0):
                break
            time.sleep(0.005)
        run.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    run.log(epochs=epoch + 1)
'''
SAMPLES, EPOCHS = 60, 30


@dataclass
class Job:
    """One job of an engine, and the folder in which its commands run.

    Args:
        engines: makes an engine over the same state, as a new controller would.
        folder: the working directory of its commands.
    """

    engines: Callable[[], Engine]
    folder: Path
    name: str = "job-1"
    attempt: int = 1
    engine: Engine = field(init=False)
    allowed: int = 0

    def __post_init__(self) -> None:
        self.engine = self.engines()
        self.folder.mkdir(exist_ok=True)

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices of the cluster."""
        return self.engine.cluster().devices()

    def launch(
        self,
        command: str,
        devices: Sequence[Device],
        *,
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Launch the attempt in the job's folder."""
        options = {"workdir": self.folder, **options}
        variables = {**_environ(), **(environ or {})}
        self.engine.launch(
            Launch(self.name, self.attempt, command, tuple(devices), environ=variables, **options)
        )

    def train(self, devices: Sequence[Device], *, steps: int = 2, **environ: str) -> None:
        """Launch the elastic script, with checkpoints, and let it make so many steps."""
        script = self.folder / "train.py"
        script.write_text(SCRIPT)
        self.allow(steps)
        self.launch(
            f"exec {shlex.quote(sys.executable)} train.py .",
            devices,
            checkpoint=self.folder / "checkpoints",
            environ=environ,
        )

    # -- what is seen of it

    def status(self) -> Status:
        """Return how the attempt stands."""
        return self.engine.status(self.name, self.attempt)

    def until(self, ready: Callable[[Status], object], what: str, *, crawl: bool = False) -> Status:
        """Return the first status that is `ready`; with `crawl` let steps come slowly meanwhile."""
        start, due = time.monotonic(), 0.0
        while not ready(status := self.status()):
            now = time.monotonic()
            assert now < start + PATIENCE, f"waited for {what} in vain: {status}"
            assert status.phase not in ("ended", "lost"), f"before {what}: {status}\n{self.log()}"
            if crawl and now >= due:
                # A busy machine starts newcomers slowly: the steps must last until they are there.
                due = now + (_CRAWL if now < start + 10 else 10 * _CRAWL)
                self.allow(max(self.allowed, self.committed() + 1))
            time.sleep(_LOOK)
        return status

    def end(self, *, crawl: bool = False) -> Status:
        """Wait for its end."""
        return self.until(lambda status: status.phase == "ended", "its end", crawl=crawl)

    def log(self) -> str:
        """Return all that it and its supervisor have printed."""
        logs = self.engine.logs(self.name, self.attempt)
        return "\n".join(f"--- {name}\n{path.read_text()}" for name, path in logs.items())

    # -- its pace

    def allow(self, steps: int | None) -> None:
        """Let the script begin steps below that; None: all."""
        if steps is None:
            (self.folder / "allow").unlink()
            return
        self.allowed = steps
        part = self.folder / "allow.part"
        part.write_text(str(steps))
        part.rename(self.folder / "allow")

    def until_on(self, devices: Sequence[Device]) -> Status:
        """Train slowly until these devices have made a step together.

        In any order: those that come later have the later ranks.
        """
        names = {device.name for device in devices}

        def trained(status: Status) -> bool:
            steps = bool(status.spans and status.spans[-1]["steps"])
            return steps and set(status.devices) == names

        return self.until(trained, f"a step of {names}", crawl=True)

    def resize(self, devices: Sequence[Device], request: int) -> None:
        """Resize the attempt."""
        self.engine.resize(self.name, self.attempt, devices, request)

    def stop(self, *, save: bool, grace: float = PATIENCE) -> None:
        """Tell the attempt to stop."""
        self.engine.stop(self.name, self.attempt, save=save, grace=grace)

    def abandon(self) -> None:
        """Leave nothing running, also where a case has failed."""
        for attempt in range(1, self.attempt + 1):
            self.engine.stop(self.name, attempt, save=False, grace=0.0)
            end = time.monotonic() + PATIENCE
            while self.engine.status(self.name, attempt).phase not in ("absent", "ended", "lost"):
                assert time.monotonic() < end, f"attempt {attempt} does not end"
                time.sleep(_LOOK)

    # -- what it leaves

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file that its commands have written; none where it is absent."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def ledger(self) -> list[dict[str, Any]]:
        """Return the whole rows of the ledger that the checkpoints' folder has."""
        path = self.folder / "checkpoints" / "ledger.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def committed(self) -> int:
        """Return the steps that are committed."""
        steps = [row["step"] for row in self.ledger() if row["kind"] in ("step", "attempt")]
        return steps[-1] + 1 if steps else 0

    def saved_step(self) -> int:
        """Return the step of the newest checkpoint."""
        saved = sorted((self.folder / "checkpoints").glob("step-*/manifest.json"))
        return int(json.loads(saved[-1].read_text())["step"])

    def prove(self) -> None:
        """Prove from the ledger that every sample was trained once an epoch, over all attempts."""
        rows = [row for row in self.ledger() if row["kind"] != "data"]
        proof = prove(rows, SAMPLES)
        assert proof.ok, proof.problems
        assert proof.steps == EPOCHS * SAMPLES // 12


def _environ() -> dict[str, str]:
    """Return this process's environment, in which `python` finds staves."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("STAVES_")}
    paths = [str(Path(staves.__file__).parents[1]), environ.get("PYTHONPATH", "")]
    return environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
