"""How the death of a loader worker shows, wherever samples are loaded by workers."""

from __future__ import annotations

_TORCH_SAYS = "DataLoader worker (pid"  # "(pid(s) 1, 2)" or "(pid 1)", and how it ended
_RAISED_THERE = "Caught "  # what a data set raises in a worker comes with these words

FAILURES = (RuntimeError, OSError, EOFError)
"""What a dead worker raises: torch's own error, or that of a pipe whose other end is gone."""


def how_it_died(error: Exception, *, workers: int) -> str | None:
    """Return the words for a worker's death; None where `error` is the data set's own.

    Args:
        error: one of FAILURES, as the next batch was asked of torch's loader.
        workers: loader workers that there are.
    """
    words = " ".join(str(error).split())
    if workers == 0 or words.startswith(_RAISED_THERE):
        return None
    if isinstance(error, RuntimeError) and not words.startswith(_TORCH_SAYS):
        return None
    return words[:200] or type(error).__name__
