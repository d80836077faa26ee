"""Nodes that fail again and again get no new workers for a while (rule 10)."""

from __future__ import annotations

from collections import defaultdict


def node_of(slot: str) -> str:
    """Return the node of a slot: what stands before the first slash, or the whole name."""
    return slot.split("/", maxsplit=1)[0]


class Quarantine:
    """Counts failures by node: `limit` of them `within` seconds, and nothing is started there.

    It ends by itself: when the oldest of those failures is `within` seconds old. Failures within
    `one_event` seconds of each other are one: what ends several workers of a node at once (out of
    memory, say) has failed once.
    """

    def __init__(self, limit: int = 3, within: float = 600.0, one_event: float = 0.0) -> None:
        if limit < 1 or within <= 0:
            raise ValueError(f"a quarantine after {limit} failures in {within} s means nothing")
        self.limit, self.within, self.one_event = limit, within, one_event
        self._failures: defaultdict[str, list[float]] = defaultdict(list)

    def failed(self, slot: str, now: float) -> None:
        """Note that a worker on this slot failed."""
        failures = self._failures[node_of(slot)]
        if failures and now - failures[-1] < self.one_event:
            return
        failures.append(now)
        del failures[: -self.limit]

    def until(self, slot: str) -> float:
        """Return the time from which a worker may be started on this slot."""
        failures = self._failures.get(node_of(slot), [])
        if len(failures) < self.limit or failures[-1] - failures[0] >= self.within:
            return float("-inf")
        return failures[0] + self.within

    def allows(self, slot: str, now: float) -> bool:
        """Whether a worker may be started on this slot now."""
        return now >= self.until(slot)
