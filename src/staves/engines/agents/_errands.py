"""What takes a cluster seconds, done beside the supervisor's loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from staves.engines.local._loop import Loop
from staves.errors import StavesError

T = TypeVar("T")


class Errands:
    """Runs calls one after the other in one thread; what they return comes in the loop.

    One thread, that lives until the process ends: children that are to die with their parent die
    with the thread that has started them.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._open = 0
        threading.Thread(target=self._run, name="staves-errands", daemon=True).start()

    def run(
        self,
        call: Callable[[], T],
        done: Callable[[T], object] = lambda result: None,
        failed: Callable[[str], object] = lambda reason: None,
    ) -> None:
        """Have this called; then `done` with its result, or `failed` with the error's words."""
        self._open += 1
        self._calls.put(partial(self._do, call, done, failed))

    @property
    def open(self) -> int:
        """How many calls have not come back yet."""
        return self._open

    def _do(
        self,
        call: Callable[[], T],
        done: Callable[[T], object],
        failed: Callable[[str], object],
    ) -> None:
        try:
            result = call()
        except StavesError as error:
            self._loop.post(partial(self._back, partial(failed, str(error))))
        except Exception as error:  # a cluster's client may raise anything: it is said, not lost
            words = f"{type(error).__name__}: {error}"
            self._loop.post(partial(self._back, partial(failed, words)))
        else:
            self._loop.post(partial(self._back, partial(done, result)))

    def _back(self, call: Callable[[], object]) -> None:
        self._open -= 1
        call()

    def _run(self) -> None:
        while True:
            self._calls.get()()
