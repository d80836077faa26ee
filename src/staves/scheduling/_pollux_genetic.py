"""Pollux's fitness by its published genetic search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._ladders import Array, ladders
from staves.scheduling._pollux import Pollux, Slowness
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, View

Population = NDArray[np.int64]
"""Allocations, (P, J, V): devices of each job on each node and type."""


class PolluxGenetic(Pollux):
    """The fitness of `pollux`, searched as published: a genetic algorithm over whole allocations.

    After OSDI '21, section 4.2.2. An individual says how many devices each job has on each node.
    A generation mutates each number with probability 1 / nodes into a random one, mixes the rows of
    two parents that won a tournament, takes devices at random from jobs on nodes that are given out
    more than once, and keeps the fittest. On unlike devices a job's part is that of the type of
    which it has most, as Sia's authors ran Pollux; the rest idles. The search starts from what
    jobs have, and from random allocations; the paper also keeps the last round's population.

    Args:
        population: individuals.
        generations: how often.
        seed: of the search; the same view gives the same decision.
    """

    name = "pollux-genetic"

    def __init__(self, population: int = 100, generations: int = 100, seed: int = 0) -> None:
        self._population, self._generations, self._seed = population, generations, seed

    def decide(self, view: View) -> Decision:
        """Return the fittest decision that was found."""
        done, free = settled(view, pausing=True)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        slowness = Slowness.of(view, ladders(jobs, free))
        runs = [j for j, cost in enumerate(slowness.cost) if np.isfinite(cost).any()]
        if not runs:
            return slowness.decided(view, done, {})
        search = _Search(view, slowness, runs, free, np.random.default_rng(self._seed))
        found = search.run(self._population, self._generations)
        return slowness.decided(view, done, found)


class _Search:
    """The search over allocations of the jobs with the numbers `runs`."""

    def __init__(
        self,
        view: View,
        slowness: Slowness,
        runs: list[int],
        free: list[int],
        rng: np.random.Generator,
    ) -> None:
        self._rng, self._runs = rng, runs
        self._cost, self._nothing = slowness.cost[runs], slowness.nothing
        self._jobs = [slowness.ladders.jobs[j] for j in runs]
        # A column for each type of each node, as far as devices of it are not spoken for.
        self._kind, self._room = _columns(view, free)
        finite = np.isfinite(self._cost)
        sizes = np.arange(self._cost.shape[2])
        self._most = np.where(finite, sizes, 0).max(axis=2)  # (J, G)

    def run(self, population: int, generations: int) -> dict[int, tuple[int, int]]:
        """Return the fittest allocation: by number of the job (type, devices)."""
        people = self._repaired(self._first(population))
        fitness = self._sums(people)
        for _ in range(generations):
            children = self._repaired(self._mutated(self._crossed(people, fitness)))
            people = np.concatenate([people, children])
            fitness = np.concatenate([fitness, self._sums(children)])
            best = np.argsort(fitness, kind="stable")[:population]
            people, fitness = people[best], fitness[best]
        kind, size, cost = self._parts(people[:1])
        return {
            j: (int(kind[0, i]), int(size[0, i]))
            for i, j in enumerate(self._runs)
            if np.isfinite(cost[0, i])
        }

    def _first(self, population: int) -> Population:
        shape = (population, len(self._runs), len(self._room))
        people = self._rng.integers(0, self._room + 1, shape)
        people[0] = 0
        left = self._room.copy()
        for i, job in enumerate(self._jobs):
            for g, count in enumerate(job.current or ()):
                for v in np.flatnonzero(self._kind == g):
                    taken = min(count, int(left[v]))
                    people[0, i, v] += taken
                    left[v] -= taken
                    count -= taken
        return people

    def _crossed(self, people: Population, fitness: Array) -> Population:
        size = len(people)
        pairs = self._rng.integers(0, size, (2, size, 2))
        parents = np.take_along_axis(pairs, fitness[pairs].argmin(axis=2)[:, :, None], axis=2)
        first, second = people[parents[0, :, 0]], people[parents[1, :, 0]]
        rows = self._rng.random((size, people.shape[1], 1)) < 0.5
        children: Population = np.where(rows, first, second)
        return children

    def _mutated(self, people: Population) -> Population:
        changed = self._rng.random(people.shape) < 1 / len(self._room)
        anew = self._rng.integers(0, self._room + 1, people.shape)
        mutated: Population = np.where(changed, anew, people)
        return mutated

    def _repaired(self, people: Population) -> Population:
        """Return the allocations, devices that are given out twice taken back.

        In a random order of jobs, each keeps what those before it leave.
        """
        order = self._rng.random(people.shape[:2]).argsort(axis=1)[:, :, None]
        shuffled = np.take_along_axis(people, order, axis=1)
        before = np.minimum(np.cumsum(shuffled, axis=1) - shuffled, self._room)
        kept = np.minimum(shuffled, self._room - before)
        repaired = np.zeros_like(people)
        np.put_along_axis(repaired, order, kept, axis=1)
        return repaired

    def _parts(self, people: Population) -> tuple[Population, Population, Array]:
        """Return the type and the number of the devices that count, and their cost: (P, J) each."""
        types = self._cost.shape[1]
        counts = people @ (self._kind[:, None] == np.arange(types)).astype(np.int64)
        counts = np.minimum(counts, self._most)
        kind = counts.argmax(axis=2)
        size = counts.max(axis=2)
        cost = self._cost[np.arange(len(self._runs)), kind, size]
        return kind, size, cost

    def _sums(self, people: Population) -> Array:
        cost = self._parts(people)[2]
        sums: Array = np.where(np.isfinite(cost), cost, self._nothing).sum(axis=1)
        return sums


def _columns(view: View, free: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the type and the free devices of each type of each node, (V,) each.

    Which devices of a type others hold is not known: they count as those of the first nodes.
    """
    held = np.array(view.capacity, dtype=np.int64) - np.array(free, dtype=np.int64)
    kinds, rooms = [], []
    for node in view.nodes:
        for g, count in enumerate(node):
            taken = min(count, max(0, int(held[g])))
            held[g] -= taken
            if count > taken:
                kinds.append(g)
                rooms.append(count - taken)
    return np.array(kinds, dtype=np.int64), np.array(rooms, dtype=np.int64)
