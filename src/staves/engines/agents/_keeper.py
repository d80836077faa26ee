"""Two processes, either of which ends what is left when the other dies."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable

from staves.engines.local._process import adopt_orphans, end_orphans

NOTICE = signal.SIGUSR1
"""Says that the cluster is going to end it soon."""
_PR_SET_PDEATHSIG = 1
_ENDS_WITHIN = 3  # seconds from a signal; what stands still is ended by force


def keep(serve: Callable[[], int]) -> int:
    """Run `serve` in a child; return its exit status once nothing that it started is left.

    What a killed agent's ranks have started in turn would live on: the kernel ends the ranks alone.
    This process adopts it, and ends it. If this process is killed, the child hears of it by a
    SIGTERM. Call it from the main thread, with nothing started yet.
    """
    signal.signal(NOTICE, signal.SIG_IGN)  # until somebody listens
    before, parent = adopt_orphans(), os.getpid()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        os.setsid()  # what is sent to a group must not reach both
        status = 1
        try:
            status = serve()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def tell(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if number == signal.SIGALRM else signal.SIGTERM)
        signal.alarm(_ENDS_WITHIN)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, pass_on)
    signal.signal(NOTICE, tell)
    _, status = os.waitpid(child, 0)
    end_orphans(before)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
