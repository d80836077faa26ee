"""Placement: from counts to devices. Pure; the service and the simulator share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from staves.errors import InputError
from staves.hardware import Allocation, Device
from staves.scheduling._view import Counts

Need = dict[str, int]

Placing = Literal["packed", "aligned", "spread"]
"""packed: new devices come from the fewest nodes, and nobody moves for others. aligned: besides,
jobs on a type where one stands on more nodes than it needs are placed anew, largest first (Sia).
spread: new devices come from the emptiest node each time (Tiresias)."""


def place(
    devices: Sequence[Device],
    chosen: Mapping[str, Counts],
    types: Sequence[str],
    current: Mapping[str, Allocation],
    *,
    placing: Placing = "packed",
    fixed: Collection[str] = (),
) -> dict[str, Allocation]:
    """Return the devices of every job.

    Jobs whose counts are what they have stay exactly as they are. Others keep as many of their
    devices as they can, in the order of their ranks, those first that stand together on a node; new
    ones follow. New devices come from the fewest nodes: the one that holds all that is missing and
    then has least left, or else the one that holds most of it, jobs that want most first.

    Args:
        devices: all that may be used, in the cluster's order; those of drained nodes are left out,
            but for those of pinned jobs.
        chosen: by job id, devices of each type.
        types: the names of the types, in the order of the counts.
        current: by job id, what the job has; jobs that are not in `chosen` lose it.
        placing: see `Placing`; where devices are spread, jobs come in their order in `chosen`.
        fixed: jobs that are never placed anew.

    Raises:
        InputError: there are too few devices of a type.
    """
    there = {device.name for device in devices}
    kept: dict[str, list[Device]] = {}
    missing: dict[str, Need] = {}
    for job, counts in chosen.items():
        wanted = {name: n for name, n in zip(types, counts, strict=True) if n}
        held = [d for d in current.get(job, Allocation()) if d.name in there]
        kept[job] = held if _count(held) == wanted else _kept(held, wanted)
        for device in kept[job]:
            wanted[device.type.name] -= 1
        missing[job] = {name: n for name, n in wanted.items() if n}
    taken = {device.name for held in kept.values() for device in held}
    spread = placing == "spread"
    free = _Free([device for device in devices if device.name not in taken], spread=spread)
    largest_first = sorted(chosen, key=lambda job: (-sum(missing[job].values()), job))
    for job in chosen if spread else largest_first:
        home = {device.node for device in kept[job]}
        kept[job] += free.take(job, missing[job], home)
    if placing == "aligned":
        for name in types:
            _align(name, devices, kept, fixed)
    placed: dict[str, Allocation] = {}
    for job, held in kept.items():
        before = current.get(job)
        same = before is not None and before.devices == tuple(held)
        placed[job] = before if before is not None and same else Allocation(tuple(held))
    return placed


def _align(
    name: str, devices: Sequence[Device], placed: dict[str, list[Device]], fixed: Collection[str]
) -> None:
    """Place the jobs on one type alone anew, if one of them stands on more nodes than it needs."""
    of_type = [device for device in devices if device.type.name == name]
    largest = max(Counter(device.node for device in of_type).values(), default=0)
    moves = {
        job: held
        for job, held in placed.items()
        if held and job not in fixed and all(device.type.name == name for device in held)
    }
    if all(len({d.node for d in held}) <= -(-len(held) // largest) for held in moves.values()):
        return
    stays = {d.name for job, held in placed.items() if job not in moves for d in held}
    free = _Free([device for device in of_type if device.name not in stays])
    for job in sorted(moves, key=lambda job: (-len(moves[job]), job)):
        home = {device.node for device in moves[job]}
        placed[job] = free.take(job, {name: len(moves[job])}, home)


def _kept(held: Sequence[Device], wanted: Need) -> list[Device]:
    """Return the devices that stay: up to what is wanted of each type, from the fewest nodes."""
    room = dict(wanted)
    by_node: dict[str, list[Device]] = {}
    for device in held:
        by_node.setdefault(device.node, []).append(device)
    stays: set[str] = set()
    while by_node:
        fit = {node: _covered(_count(there), room) for node, there in by_node.items()}
        node = max(by_node, key=lambda node: (fit[node], -len(by_node[node])))  # first of equals
        for device in by_node.pop(node):
            if room.get(device.type.name, 0):
                room[device.type.name] -= 1
                stays.add(device.name)
    return [device for device in held if device.name in stays]


class _Free:
    """The devices that nobody has, by node and type."""

    def __init__(self, devices: Sequence[Device], *, spread: bool = False) -> None:
        self._spread = spread
        self._nodes: dict[str, dict[str, list[Device]]] = {}
        for device in devices:
            node = self._nodes.setdefault(device.node, {})
            node.setdefault(device.type.name, []).append(device)

    def take(self, job: str, need: Need, home: set[str]) -> list[Device]:
        """Return the devices that `job` needs, and let them be free no more."""
        need, result = dict(need), []
        while any(need.values()):
            node = self._best(need, home)
            if node is None:
                name, count = next((name, n) for name, n in need.items() if n)
                raise InputError(
                    f"{job}: {count} more devices of {name} are chosen than are free",
                    hint="the decision must fit in the devices that may be used",
                )
            for name, there in self._nodes[node].items():
                count = min(need.get(name, 0), len(there))
                result += there[:count]
                del there[:count]
                need[name] = need.get(name, 0) - count
            home = home | {node}
        return result

    def _best(self, need: Need, home: set[str]) -> str | None:
        """Return the node to take from: all if it can, then most; at home; least left over.

        Where devices are spread: that which has most of the types that are needed.
        """
        best, best_key = None, (0, False, 0)
        for node, there in self._nodes.items():
            counts = {name: len(devices) for name, devices in there.items()}
            covered = _covered(counts, need)
            if self._spread:
                key = (sum(n for name, n in counts.items() if need.get(name, 0)), False, 0)
            else:
                key = (covered, node in home, covered - sum(counts.values()))
            if covered and (best is None or key > best_key):
                best, best_key = node, key
        return best


def _count(devices: Sequence[Device]) -> Need:
    counts: Need = {}
    for device in devices:
        counts[device.type.name] = counts.get(device.type.name, 0) + 1
    return counts


def _covered(counts: Need, need: Need) -> int:
    return sum(min(n, need.get(name, 0)) for name, n in counts.items())
