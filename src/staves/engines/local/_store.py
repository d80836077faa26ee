"""The rendezvous store as a child of the supervisor."""

from __future__ import annotations

import os
import subprocess
import sys

from staves.engines.local._process import ChildProcess
from staves.engines.local._sockets import listening


class StoreProcess:
    """Runs `python -m staves.training.store` on a port that is held from the start.

    Args:
        host: the address to listen on, of either family.
    """

    def __init__(self, host: str) -> None:
        with listening(host) as listener:
            host, port = listener.getsockname()[:2]
            self.address: tuple[str, int] = (host, port)
            self.process = ChildProcess(
                [sys.executable, "-m", "staves.training.store", "--fd", str(listener.fileno())],
                environ=os.environ,
                descriptors=[listener.fileno()],
                stdout=subprocess.DEVNULL,
            )

    def close(self) -> None:
        """End it."""
        self.process.close()
