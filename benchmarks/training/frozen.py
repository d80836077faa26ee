"""The declaration's seal: what may not change once a comparison has been seen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

FROZEN_ON = "2026-11-30"
"""Anew, once; see declared.py for why."""
FINGERPRINT = "d09f947b6ef9817189c8387ddde374d3535f743515b3cc57556b1544cce9a87c"
"""Of the files below, when they were frozen; a test compares."""

_HERE = Path(__file__).parent


def fingerprint() -> str:
    """Return the SHA-256 of the declaration: declared.py, evaluation.py and the workloads."""
    files = [_HERE / "declared.py", _HERE / "evaluation.py"]
    files += sorted((_HERE / "workloads").glob("*.py"))
    return digest((path.name, path) for path in files)


def digest(files: Iterable[tuple[str, Path]]) -> str:
    """Return the SHA-256 of files with their names, in that order."""
    whole = hashlib.sha256()
    for name, path in files:
        whole.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()


def unchanged() -> bool:
    """Return whether the declaration is the one that was frozen."""
    return fingerprint() == FINGERPRINT
