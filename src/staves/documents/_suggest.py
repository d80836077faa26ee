"""The nearest right word for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known word nearest to `word`, or the list of all known words."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return "known: " + ", ".join(words) if words else "nothing is known here"
