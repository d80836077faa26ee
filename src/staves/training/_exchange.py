"""Small objects between the ranks of a generation, through the rendezvous store.

For what happens once in many steps (decisions, sums of an epoch). Unlike a collective it can be
given up at any point, and a rank that has died leaves nobody hanging.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

from torch._C._distributed_c10d import PrefixStore, Store

from staves.errors import TrainingError
from staves.training._interrupt import Interrupted, poll

_LATE = 2.0  # seconds for which nobody asks why another rank's part does not come


class Exchange:
    """All ranks call the same methods in the same order.

    Args:
        store: of the job.
        generation, run: whose exchange this is; a script may have several runs.
        rank, world_size: in that generation.
        interrupted: whether it has broken.

    What is pickled here was written by this program, and is read by this job's own ranks only.
    """

    def __init__(
        self,
        store: Store,
        *,
        generation: int,
        rank: int,
        world_size: int,
        interrupted: Callable[[], bool],
        run: int = 0,
    ) -> None:
        self._store = PrefixStore(f"exchange-{run}-{generation}", store)
        self.rank, self.world_size = rank, world_size
        self._interrupted = interrupted
        self._calls = 0
        self._absent: tuple[str, str, str] | None = None
        self.waits = False  # for another rank, at this moment

    def gather(self, value: Any) -> list[Any] | None:
        """Return the values of all ranks, in rank order, on rank 0; None elsewhere."""
        call = self._next()
        if self.rank != 0:
            self._set(f"{call}/{self.rank}", value)
            return None
        return [value] + [self._get(f"{call}/{r}") for r in range(1, self.world_size)]

    def broadcast(self, value: Any, source: int = 0) -> Any:
        """Return the value of rank `source` on every rank."""
        call = self._next()
        if self.rank == source:
            self._set(call, value)
            return value
        return self._get(call)

    def agree(self, own: Any, decide: Callable[[list[Any]], Any]) -> Any:
        """Return on every rank what `decide` makes on rank 0 of all ranks' `own`, in rank order."""
        gathered = self.gather(own)
        return self.broadcast(None if gathered is None else decide(gathered))

    def sum(self, *values: float, absent: tuple[str, str, str] | None = None) -> list[float]:
        """Return the sums of the values over all ranks, alike on each.

        Args:
            values: this rank's.
            absent: a flag by which a rank says that it takes no part, and what is said then, with a
                hint.

        Raises:
            TrainingError: the others are late, and that flag is up.
        """
        self._absent = absent
        try:
            result: list[float] = self.agree(
                values, lambda gathered: [sum(column) for column in zip(*gathered, strict=True)]
            )
        finally:
            self._absent = None
        return result

    def raise_flag(self, name: str) -> None:
        """Set a flag that any rank may see from here on. Waits for no rank."""
        self._add(name, 1)

    def flagged(self, name: str) -> bool:
        """Whether any rank has raised that flag. Waits for no rank."""
        return self._add(name, 0) > 0

    def _add(self, name: str, amount: int) -> int:
        try:
            return int(self._store.add(f"flag/{name}", amount))
        except RuntimeError as error:
            raise Interrupted from error

    def _next(self) -> str:
        self._calls += 1
        return str(self._calls)

    def _set(self, key: str, value: Any) -> None:
        try:
            self._store.set(key, pickle.dumps(value))  # type: ignore[arg-type]  # bytes are fine
        except RuntimeError as error:  # the store has gone: a new generation is on its way
            raise Interrupted from error

    def _get(self, key: str) -> Any:
        self.waits = True
        look_at = time.monotonic() + _LATE

        def ready() -> bool:
            nonlocal look_at
            if self._store.check([key]):
                return True
            if self._absent is not None and time.monotonic() > look_at:
                look_at += _LATE
                flag, message, hint = self._absent
                if self.flagged(flag):
                    raise TrainingError(message, hint=hint)
            return False

        try:
            poll(ready, self._interrupted)
            return pickle.loads(self._store.get(key))
        except TrainingError:
            raise
        except RuntimeError as error:
            raise Interrupted from error
        finally:
            self.waits = False
