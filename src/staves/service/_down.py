"""`staves down`: end the service, its jobs and all their processes, however things stand."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass

from staves.errors import StavesError
from staves.service._client import Client
from staves.service._folder import ServiceFolder, State
from staves.service._leftovers import end_leftovers

_ASKED = 5.0  # seconds for the controller to answer; one that is stopped never does
_LEFTOVERS_GRACE = 10.0  # seconds; more than a supervisor takes to end its workers


@dataclass(frozen=True, slots=True)
class Downed:
    """How a service came to its end.

    Args:
        was: how it stood before.
        forced: whether its controller had to be ended by force.
        leftovers: processes that no controller ended.
    """

    was: State
    forced: bool
    leftovers: int


def down(folder: ServiceFolder, *, grace: float) -> Downed:
    """End the service of a folder; nothing of it is left when this returns.

    Its jobs are saved first, and queued again at the next `staves up`. Where it does not run, what
    a dead controller left behind is ended.

    Args:
        folder: of the service.
        grace: seconds for jobs to save; then the controller is ended by force.
    """
    was, pid = folder.state, folder.pid
    forced = pid is not None and not _end_controller(folder, pid, grace)
    if was == "dead" or forced:
        folder.mark_down()
    leftovers = end_leftovers(folder.home, grace=_LEFTOVERS_GRACE)
    folder.forget_address()
    return Downed(was, forced, leftovers)


def _end_controller(folder: ServiceFolder, pid: int, grace: float) -> bool:
    """Return whether it ended of itself."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if folder.pid != pid:  # it has ended meanwhile, and another has got its number
            return True
        if not _ask(folder):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if select.select([descriptor], [], [], grace)[0]:
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [])
        return False
    finally:
        os.close(descriptor)


def _ask(folder: ServiceFolder) -> bool:
    """Ask the service to end; return whether it will. One without a token or an ear will not."""
    try:
        # The service that STAVES_URL names may be another one.
        with Client(folder.home, environ={}, patience=2.0, timeout=_ASKED) as client:
            client.shutdown()
    except StavesError:
        return False
    return True
