"""A whole choice from prices: what jobs buy, less what there is too little of, then trades.

Against the bound a choice loses what each job loses against its best purchase at the prices, and
the price of the devices that stay free. Every move makes the choice better, and so that loss
smaller: it ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from staves.scheduling.heet._prices import Prices
from staves.scheduling.heet._relaxation import Instance

Array = NDArray[np.float64]
Columns = NDArray[np.int64]
Needs = list[float]

_MOST_ROUNDS = 100  # of trades
_LIKELY = 4096  # moves of which trades are made up: those that lose least at the prices
_PARTNERS = 300  # of these on either side, needs alike counted once or twice
_TOO_LITTLE = 0.1  # of what may be missing: a round of trades that gains less is the last
_NOISE = 1e-12  # of the bound
_CHEAP = 1e-9  # of the greatest utility: what a device counts at least, so that none is for free
_AT_ONCE = 1024  # moves that are looked at together


class Trading:
    """A choice for each job that becomes better, move by move.

    A move gives one job another of its columns, or nothing. More devices than there are may be in
    use before `run`, never after it.

    Args:
        problem: what there is to choose.
        priced: its prices.
    """

    def __init__(self, problem: Instance, priced: Prices) -> None:
        jobs, self._size = problem.jobs, len(problem.utility)
        self._bound = priced.bound
        most = float(problem.utility.max(initial=0.0)) or 1.0
        self._price = np.maximum(priced.of_types, _CHEAP * most)
        profit = problem.profit(priced.of_types)
        # After the columns, nothing for each job.
        self._utility = np.append(problem.utility, np.zeros(jobs))
        self._profit = np.append(profit, np.zeros(jobs))
        self._owner = np.append(problem.owner, np.arange(jobs))
        nothing = np.zeros((len(problem.capacity), jobs))
        self._counts = np.concatenate([problem.by_type, nothing], axis=1)
        self._at = np.arange(self._size, self._size + jobs)
        self._at[problem.owner[priced.start]] = priced.start
        self._free: Needs = (problem.capacity - problem.used(priced.start)).tolist()

    @property
    def columns(self) -> Columns:
        """What is chosen, as columns of the problem."""
        return self._at[self._at < self._size]

    @property
    def value(self) -> float:
        """The sum of its utilities."""
        return float(self._utility[self._at].sum())

    def run(self, enough: float) -> None:
        """Shed what does not fit; then move while that gains and more than `enough` is missing."""
        self._shed()
        self._fill()
        for _ in range(_MOST_ROUNDS):
            before = self.value
            if self._bound - before <= enough:
                break
            self._trade()
            self._fill()
            if self.value - before <= _TOO_LITTLE * enough:
                break

    def _shed(self) -> None:
        """Let jobs have less while they have more than there is, where that loses least.

        Nothing at all always fits, and nobody who has that has less, so it ends.
        """
        while (over := [g for g, free in enumerate(self._free) if free < 0]) != []:
            now = self._at[self._owner]
            relief, more = np.zeros(len(now)), np.zeros(len(now), dtype=bool)
            for g in over:
                less = self._counts[g, now] - self._counts[g]
                more |= less < 0
                relief += self._price[g] * np.minimum(less, -self._free[g])
            moves = np.flatnonzero((relief > 0) & ~more)
            loss = (self._profit[now[moves]] - self._profit[moves]) / relief[moves]
            for move, need in self._fitting(moves[np.argsort(loss, kind="stable")]):
                if any(need[g] < 0 and self._free[g] < 0 for g in over):
                    self._make(move, need)

    def _fill(self) -> None:
        """Let jobs start, grow or change into free devices, most gain for their price first."""
        moved = True
        while moved:
            moved = False
            now = self._at[self._owner]
            gain = self._utility - self._utility[now]
            fits = gain > _NOISE * self._bound
            price = np.full(len(now), self._price.min())
            for g, free in enumerate(self._free):
                more = self._counts[g] - self._counts[g, now]
                fits &= more <= free
                price += self._price[g] * np.maximum(more, 0)
            moves = np.flatnonzero(fits)
            order = np.argsort(-gain[moves] / price[moves], kind="stable")
            for move, need in self._fitting(moves[order]):
                self._make(move, need)
                moved = True

    def _trade(self) -> None:
        """Let pairs of jobs make moves that fit and gain together, each job one, best first."""
        now = self._at[self._owner]
        rise = self._profit - self._profit[now]
        rise[self._at] = -np.inf
        moves = np.arange(len(now))
        if len(moves) > _LIKELY:
            moves = np.argpartition(-rise, _LIKELY)[:_LIKELY]
        moves = moves[np.argsort(-rise[moves], kind="stable")]
        gain = self._utility[moves] - self._utility[now[moves]]
        need = (self._counts[:, moves] - self._counts[:, now[moves]]).T
        kept = _two_of_alike(gain, need)
        moves, gain, need = moves[kept], gain[kept], need[kept]
        buy = np.flatnonzero(gain > 0)[:_PARTNERS]
        sell = np.flatnonzero((need < 0).any(axis=1))[:_PARTNERS]
        if not len(buy) or not len(sell):
            return
        together = gain[buy][:, None] + gain[sell]
        fits = self._owner[moves[buy]][:, None] != self._owner[moves[sell]]
        for g, free in enumerate(self._free):
            fits &= need[buy, g][:, None] + need[sell, g] <= free
        together = np.where(fits, together, 0.0)
        best = sell[together.argmax(axis=1)]
        most = together.max(axis=1)
        moved: set[int] = set()
        for index in np.argsort(-most, kind="stable").tolist():
            if most[index] <= _NOISE * self._bound:
                break
            pair = [int(buy[index]), int(best[index])]
            jobs = set(self._owner[moves[pair]].tolist())
            if jobs & moved or not self._fits(need[pair].sum(axis=0).tolist()):
                continue
            moved |= jobs
            for row in pair:
                self._make(int(moves[row]), need[row].tolist())

    def _fitting(self, moves: Columns) -> Iterator[tuple[int, Needs]]:
        """Yield those moves in turn, and what each needs further, that fit when their turn comes.

        One move of each job at most.
        """
        before = self._at.copy()
        for start in range(0, len(moves), _AT_ONCE):
            part = moves[start : start + _AT_ONCE]
            now = before[self._owner[part]]
            need = self._counts[:, part] - self._counts[:, now]
            there = np.maximum(self._free, 0)[:, None]
            fits = (need <= there).all(axis=0) & (self._at[self._owner[part]] == now)
            for move, further in zip(part[fits].tolist(), need[:, fits].T.tolist(), strict=True):
                job = self._owner[move]
                if self._at[job] == before[job] and self._fits(further):
                    yield move, further

    def _fits(self, need: Needs) -> bool:
        return all(n <= max(free, 0) for n, free in zip(need, self._free, strict=True))

    def _make(self, move: int, need: Needs) -> None:
        self._at[self._owner[move]] = move
        self._free = [free - n for free, n in zip(self._free, need, strict=True)]


def _two_of_alike(gain: Array, need: Array) -> Columns:
    """Return which of moves that need the same gain most: two, since a job trades with others."""
    order = np.lexsort((-gain, *need.T))
    new = np.append(True, (need[order[1:]] != need[order[:-1]]).any(axis=1))
    start = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return np.sort(order[np.arange(len(order)) - start < 2])
