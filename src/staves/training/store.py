"""The rendezvous store as a process of its own: `python -m staves.training.store --fd N`.

It lives outside the ranks, as a child of the supervisor, so that no rank's death takes the
rendezvous away. The supervisor opens the listening socket (so the port is known, and held, before
this process has even started) and this process serves it until it is ended.
"""

from __future__ import annotations

import argparse
import signal
import socket
from datetime import timedelta

from torch._C._distributed_c10d import TCPStore


def serve(descriptor: int) -> None:
    """Serve a store on the listening socket `descriptor` until this process is ended."""
    listener = socket.socket(fileno=descriptor)
    host, port = listener.getsockname()[:2]
    # The store owns the descriptor from here on; `detach` keeps Python from closing it as well.
    store = TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=30),
        master_listen_fd=listener.detach(),
    )
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del store


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description="Serve a rendezvous store.")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of a listening socket")
    serve(parser.parse_args().fd)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
