"""`python -m staves.engines.local FOLDER`: the supervisor of one attempt."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    # A shell started this in the background: Ctrl-C is ignored then, and workers would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.getpid() != os.getpgrp():
        os.setsid()
    from staves.engines.local._detached import main

    sys.exit(main(Path(sys.argv[1])))
