"""What must be alike on all members of a job (rule 16), as a digest."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from staves.training._loader import Loader


def fingerprint(
    model: nn.Module | None, loader: Loader | None, *, seed: int, options: dict[str, Any]
) -> str:
    """Return a digest of parameters (names, shapes, types), buckets, data, seed, torch and
    script."""
    parameters = [] if model is None else list(model.named_parameters())
    cursor = None if loader is None else loader.cursor
    parts = {
        "parameters": [(n, list(p.shape), str(p.dtype), p.requires_grad) for n, p in parameters],
        "buckets": sorted((name, repr(value)) for name, value in options.items()),
        "data": None if cursor is None else (cursor.length, cursor.shuffle, cursor.drop_last),
        "seed": seed,
        "torch": torch.__version__,
        "script": _script(),
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _script() -> str:
    try:
        return hashlib.sha256(Path(sys.argv[0]).read_bytes()).hexdigest()
    except OSError:  # an interactive session, or `python -c`
        return ""
