"""Staves: elastic PyTorch training on clusters of unlike GPUs.

`staves.init(...)` starts a training run (see `staves.training`). Importing `staves` loads no torch;
that happens with the first use of the training side.
"""

from __future__ import annotations

from staves.errors import InputError, StavesError, TrainingError

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes a while to load, and the command has to be up at once
    from typing import Any

    from staves.training import Adaptive, Run, init

__version__ = "0.1.0"

__all__ = [
    "Adaptive",
    "InputError",
    "Run",
    "StavesError",
    "TrainingError",
    "__version__",
    "init",
]

_LAZY = {"Adaptive", "Run", "init"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from staves import training

        return getattr(training, name)
    raise AttributeError(f"module 'staves' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
