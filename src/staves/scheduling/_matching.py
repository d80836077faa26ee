"""Minimum-weight full bipartite matching of jobs to slots, many of which are alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ROUNDING = 1e-12


def matched(cost: Array, slots: Sequence[int]) -> NDArray[np.int64]:
    """Return the kind of slot of each job, (J,), -1 for none, at the smallest sum of costs.

    The matching is full: every job has a slot, or every slot a job, as far as costs are finite.
    Slots of a kind are interchangeable, so jobs are matched to kinds: one job after the other comes
    in by the shortest augmenting path over K kinds, a transportation problem, in O(J (K^2 + J))
    instead of the cube of all slots.

    Args:
        cost: (J, K); inf where a job cannot have a slot of the kind.
        slots: how many slots of each kind there are, (K,).
    """
    jobs, kinds = cost.shape
    finite = np.isfinite(cost)
    # A last kind holds who goes without: at a price beyond what any chain of moves could save.
    beyond = 1.0 + 2.0 * float(np.abs(cost[finite]).max(initial=0.0)) * (min(jobs, kinds + 1) + 1)
    whole = np.column_stack([np.where(finite, cost, np.inf), np.full(jobs, beyond)])
    room = np.append(np.array(slots, dtype=np.int64), jobs)
    where = np.full(jobs, -1)
    moves = np.full((kinds + 1, kinds + 1), np.inf)
    mover = np.zeros((kinds + 1, kinds + 1), dtype=np.int64)
    for j in range(jobs):
        path = _path(whole[j], moves, room)
        for start, end in itertools.pairwise(path):
            where[mover[start, end]] = end
        where[j] = path[0]
        room[path[-1]] -= 1
        for kind in path:
            members = np.flatnonzero(where == kind)
            with np.errstate(invalid="ignore"):
                extra = whole[members] - whole[members, kind][:, None]
            moves[kind] = extra.min(axis=0) if len(members) else np.inf
            mover[kind] = members[extra.argmin(axis=0)] if len(members) else 0
    return np.where(where == kinds, -1, where)


def _path(first: Array, moves: Array, room: NDArray[np.int64]) -> list[int]:
    """Return the kinds that a job passes: the first is its own, the last has room.

    At each, but for the last, the job to which it costs least moves on. Bellman and Ford's
    algorithm: moves may save costs, but no circle of them does.
    """
    length, before = first.copy(), np.full(len(first), -1)
    for _ in range(len(first)):
        through = length[:, None] + moves
        best = through.argmin(axis=0)
        shorter = through[best, np.arange(len(first))]
        known = np.where(np.isfinite(length), np.maximum(1.0, np.abs(length)), 0.0)
        better = shorter < length - _ROUNDING * known
        if not better.any():
            break
        length = np.where(better, shorter, length)
        before = np.where(better, best, before)
    path = [int(np.where(room > 0, length, np.inf).argmin())]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return path[::-1]
