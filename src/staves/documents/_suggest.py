"""The nearest right word for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from staves.errors import quoted

_LONGEST_LIST = 16
_LONGEST_WORD = 200


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known word nearest to `word`, or else the known words.

    Case does not count. Of a long list without a near word, the three nearest are named.
    """
    by_lower = {name.lower(): name for name in sorted(known, reverse=True)}
    words = [by_lower[lower] for lower in sorted(by_lower)]
    word = word[:_LONGEST_WORD]  # what is longer is like nothing, and takes long to compare
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"did you mean {quoted(by_lower[near[0]])}?"
    if not words:
        return "nothing is known here"
    if len(words) <= _LONGEST_LIST:
        return "known: " + ", ".join(words)
    nearest = difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=0.0)
    return f"{len(words)} are known, nearest: " + ", ".join(by_lower[lower] for lower in nearest)
