"""The rendezvous store as a child of the supervisor."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from staves.engines.local._process import ChildProcess


class StoreProcess:
    """Runs `python -m staves.training.store` on a loopback port that is held from the start."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
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
