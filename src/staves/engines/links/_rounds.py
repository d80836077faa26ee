"""Which pairs are measured side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def rounds_of(nodes: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield rounds of disjoint pairs, in which every pair of n nodes stands exactly once.

    A round-robin tournament by the circle method: n - 1 rounds for even n, n for odd n, which is
    as few as there can be. All n (n - 1) / 2 pairs take time in O(n).

    Args:
        nodes: their names, all unlike.
    """
    circle: list[str | None] = list(nodes)
    if len(circle) % 2:
        circle.append(None)  # who meets it rests
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        found = [(one, other) for one, other in pairs if one is not None and other is not None]
        if found:
            yield found
        circle.insert(1, circle.pop())
