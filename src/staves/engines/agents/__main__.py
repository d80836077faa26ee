"""`python -m staves.engines.agents`: the agent of one attempt on one node."""

from __future__ import annotations

import argparse
import os
import sys

from staves.engines.agents._agent import Calling, serve
from staves.engines.agents._keeper import keep
from staves.engines.agents._nodes import AGENT_TOKEN
from staves.errors import StavesError


def main() -> int:
    """Parse the command line and serve; errors are one line."""
    parser = argparse.ArgumentParser(
        prog="staves.engines.agents",
        description=f"Start ranks on this node as a supervisor asks. {AGENT_TOKEN} is secret.",
    )
    parser.add_argument("--supervisor", required=True, help="HOST:PORT, or [HOST]:PORT")
    parser.add_argument("--node", required=True, help="this node's name in the cluster")
    parser.add_argument("--agent", required=True, help="the agent's id")
    parser.add_argument("--interface", help="as STAVES_INTERFACE: name, address or network")
    options = parser.parse_args()
    token = os.environ.pop(AGENT_TOKEN, "")
    if not token:
        parser.error(f"{AGENT_TOKEN} is not set")
    interface = options.interface or os.environ.get("STAVES_INTERFACE") or None
    calling = Calling(options.supervisor, options.node, options.agent, token, interface)

    def run() -> int:
        try:
            return serve(calling)
        except StavesError as error:
            print(f"agent {options.agent}: {error}", file=sys.stderr, flush=True)
            return 1

    return keep(run)


if __name__ == "__main__":
    sys.exit(main())
