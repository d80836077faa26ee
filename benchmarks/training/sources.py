"""The code that decides what a run gives: runs of two versions of it are not to be mixed."""

from __future__ import annotations

from pathlib import Path

import staves
from benchmarks.training.frozen import digest

_HERE, _STAVES = Path(__file__).parent, Path(staves.__file__).parent
ROOMS = ("steptime", "convergence", "training")


def fingerprint() -> str:
    """Return the SHA-256 of the compared systems, of how they are run, and of Staves' rooms that
    train."""
    files = [_HERE / "runs.py", _HERE / "cells.py", *(_HERE / "systems").glob("*.py")]
    named = {f"benchmarks/{path.relative_to(_HERE)}": path for path in files}
    for room in ROOMS:
        for path in (_STAVES / room).rglob("*.py"):
            named[f"staves/{path.relative_to(_STAVES)}"] = path
    return digest(sorted(named.items()))
