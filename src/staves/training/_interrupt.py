"""Waiting that ends when the generation breaks: the only way in which this room waits for
others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist

T = TypeVar("T")

NOTICE_WITHIN = 30.0
"""Seconds in which the supervisor says why a collective failed."""

_LATE = 5.0  # seconds: a loss has long been told by then
_SHORT, _LONG = 0.0002, 0.002  # seconds between two looks, at first and later


class Interrupted(Exception):
    """The generation in force has lost a member: give up what is under way, at the next
    boundary."""


def of_a_collective(error: Exception) -> bool:
    """Whether an error comes from a collective, and not from the script's own computation."""
    if isinstance(error, (Interrupted, dist.DistError)):
        return True
    text = str(error)
    return any(word in text for word in ("gloo", "Connection closed by peer", "NCCL"))


def poll(ready: Callable[[], bool], interrupted: Callable[[], bool]) -> None:
    """Return when `ready`.

    Raises:
        Interrupted: `interrupted` came first.
    """
    pause = _SHORT
    while not ready():
        if interrupted():
            raise Interrupted
        time.sleep(pause)
        pause = min(_LONG, pause * 1.5)


def notice_comes(interrupted: Callable[[], bool], late: Callable[[], None]) -> bool:
    """After a collective has failed, wait for the notice of a loss; return whether it came.

    `late` is called when it should have come: nobody has died then, but a rank may have left the
    training by itself, which only the supervisor knows.
    """
    try:
        for seconds, then in ((_LATE, late), (NOTICE_WITHIN, lambda: None)):
            until = time.monotonic() + seconds
            poll(lambda until=until: time.monotonic() > until, interrupted)  # type: ignore[misc]
            then()
    except Interrupted:
        return True
    return False


def run_interruptibly(
    blocking: Callable[[], object],
    interrupted: Callable[[], bool],
    meanwhile: Callable[[], T] | None = None,
) -> T:
    """Run what may block for ever in a thread that can be left behind; do `meanwhile` beside it.

    Returns what `meanwhile` returned.

    Raises:
        Interrupted: the generation broke first (the thread stays), or `blocking` failed with it.
    """
    errors: list[Exception] = []

    def body() -> None:
        try:
            blocking()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=body, name="staves-blocking", daemon=True)
    thread.start()
    result = None if meanwhile is None else meanwhile()
    poll(lambda: not thread.is_alive(), interrupted)
    if errors:
        raise Interrupted from errors[0]
    return result  # type: ignore[return-value]
