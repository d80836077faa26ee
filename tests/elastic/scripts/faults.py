"""Faults that a worker injects into itself, as FOLDER/faults.json asks for its member.

Each is {"member": M, "kind": KIND, "step": K}: the process kills itself at that very point, or
(an error in the update) raises there, once or always.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from staves.training import _session, _state
from staves.training._crew import SupervisedCrew
from staves.training._noise import GradientNorms
from staves.training._reducer import WeightedReducer
from staves.training._run import Run


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Fault:
    """What the training loop calls."""

    def __init__(self, kind: str, step: int, run: Run) -> None:
        self._kind, self._step, self._run = kind, step, run
        self.done = False

    def before_step(self) -> None:
        if self.now("before the step"):
            die()
        if self.now("exit"):
            sys.exit(0)

    def after_step(self) -> None:
        if self._run.committed and self.now("after the update"):
            die()

    def now(self, kind: str) -> bool:
        return self._kind == kind and self._run.committed_steps >= self._step


def inject(folder: Path, member: str, optimizer: torch.optim.Optimizer, run: Run) -> Fault:
    """Prepare the fault of this member, if it has one."""
    path = folder / "faults.json"
    faults = json.loads(path.read_text()) if path.exists() else []
    mine = [each for each in faults if str(each["member"]) == member]
    if not mine:
        return Fault("", 0, run)
    kind, step = mine[0]["kind"], mine[0].get("step", 0)
    fault = Fault(kind, step, run)
    _patch(fault, kind, optimizer)
    return fault


def _patch(fault: Fault, kind: str, optimizer: torch.optim.Optimizer) -> None:
    if kind == "before the last bucket":
        hook = WeightedReducer.hook

        def dying_hook(self: WeightedReducer, state: object, bucket: Any) -> Any:
            if bucket.is_last() and fault.now(kind):
                die()
            return hook(self, state, bucket)

        dying_hook.__annotations__ = hook.__annotations__
        WeightedReducer.hook = dying_hook  # type: ignore[method-assign]
    elif kind == "inside the update":

        def half(optimizer: torch.optim.Optimizer, *_: object) -> None:
            if fault.now(kind):
                for group in optimizer.param_groups:
                    group["params"][0].data.add_(1.0)  # half of it is done
                die()

        optimizer.register_step_post_hook(half)
    elif kind in ("error in the update", "error in every update"):
        once = kind == "error in the update"

        def fail(optimizer: torch.optim.Optimizer, *_: object) -> None:
            if fault.now(kind) and not (fault.done and once):
                fault.done = True
                for group in optimizer.param_groups:
                    group["params"][0].data.add_(1.0)
                raise ArithmeticError("half of it is done")

        optimizer.register_step_post_hook(fail)
    elif kind == "before the norms are added up":
        _before(GradientNorms, "_own_share", lambda: fault.now(kind))
    elif kind == "source during the transfer":
        _before(_state, "_send", lambda: fault.now(kind))
    elif kind == "receiver during the transfer":
        _before(_state, "_receive", lambda: True)
    elif kind == "before hello":
        _before(SupervisedCrew, "first", lambda: True)
    elif kind == "after prepared":
        _after_answer()
    elif kind == "after commit":
        _before(_session.Session, "_form", lambda: True)
    elif kind not in ("before the step", "after the update", "exit"):
        raise ValueError(kind)


def _before(owner: Any, name: str, wanted: Callable[[], bool]) -> None:
    original = getattr(owner, name)

    def dying(*arguments: Any, **options: Any) -> Any:
        if wanted():
            die()
        return original(*arguments, **options)

    setattr(owner, name, dying)


def _after_answer() -> None:
    answer = SupervisedCrew._answer

    def dying(self: SupervisedCrew) -> None:
        send = self._channel.send

        def tell(kind: str, **fields: Any) -> None:
            send(kind, **fields)
            if kind == "prepared":
                die()

        self._channel.send = tell  # type: ignore[method-assign]
        try:
            answer(self)
        finally:
            self._channel.send = send  # type: ignore[method-assign]

    SupervisedCrew._answer = dying  # type: ignore[method-assign]
