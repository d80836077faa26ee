"""The configurations that are weighed for a job: all on small clusters, well-chosen ones beyond."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import (
    Table,
    as_table,
    every,
    keeps_guaranteed,
    permitted,
    single,
    usable,
)
from staves.scheduling._view import Counts, JobView

_Kind = TypeVar("_Kind", bound=NDArray[Any])

MOST = 200
"""Configurations a job at most."""

_CELLS = 4096  # of the grid over all types that is looked through for permitted ones


def configurations(
    job: JobView,
    available: Counts,
    free: Counts,
    node_sizes: Sequence[frozenset[int]],
    order: Sequence[int] | None = None,
) -> Table:
    """Return the configurations to weigh for a job that is not pinned, shape (C, G), C <= MOST.

    All of them where they are few. Else, in this order, as many as there is room for:

    * what it has now, that with one device of one type more or less, and that with everything
      which is free of one type or of all: so it can always take up devices that would idle;
    * of one type: the minimum, the maximum, 1 to 8, then steps of a quarter, and whole nodes;
    * mixed: the fastest types filled one after the other, and the finest grid over the types, of
      0, 1, 2, 4, ... up to all there are, that still has room.

    Args:
        job: the job.
        available: devices of each type that may be given out, (G,).
        free: those of them that nobody has, (G,).
        node_sizes: for each type, how many of it nodes have.
        order: `fastest_first` of the job, where that is known.
    """
    return ways(job, available, free, node_sizes, order).table


@dataclass(frozen=True, eq=False)
class Ways:
    """The configurations that are weighed for a job; nobody may change the arrays.

    Attributes:
        table: the configurations, (C, G), each of them once.
        current: the row that the job has already; -1 for none.
        within: `contained` of the table, but that what the job has contains none and is in none:
            (C, C).
    """

    table: Table
    current: int
    within: NDArray[np.bool_]


def ways(
    job: JobView,
    available: Counts,
    free: Counts,
    node_sizes: Sequence[frozenset[int]],
    order: Sequence[int] | None = None,
) -> Ways:
    """Return `configurations` with what follows from them alone; arguments as there."""
    most = usable(job, available)
    if order is None:
        order = fastest_first(job, len(most)) if job.mix else ()
    guaranteed = job.guaranteed if job.current is not None else 0
    terms = _Terms(job.minimum, job.maximum, job.types, job.mix, job.current, guaranteed)
    return _ways(terms, most, tuple(free), tuple(node_sizes), tuple(order) if job.mix else ())


class _Terms(NamedTuple):
    """What of a job decides what it may have; as `JobView`, which it stands for here."""

    minimum: int
    maximum: int
    types: frozenset[int] | None
    mix: bool
    current: Counts | None = None
    guaranteed: int = 0


@lru_cache(maxsize=512)  # of up to MOST^2 bytes each; between decisions few jobs change
def _ways(
    terms: _Terms,
    most: Counts,
    free: Counts,
    node_sizes: tuple[frozenset[int], ...],
    order: tuple[int, ...],
) -> Ways:
    any_held = terms._replace(current=None, guaranteed=0)
    table = _all(any_held, most)
    if table is None:
        others, rows = _others(any_held, most, node_sizes, order)
        close = dict.fromkeys(_near(terms, most, free))  # keeps the order
        near = as_table(list(close), len(most))
        further = np.array([row not in close for row in rows], dtype=bool)
        table = np.concatenate([near[permitted(terms, near)], others[further]])[:MOST]
    table = _kept(table[keeps_guaranteed(terms, most, table)])
    current = row_of(table, terms.current)
    within = contained(table)
    if current >= 0:
        within[current] = within[:, current] = False
    return Ways(table, current, _kept(within))


def row_of(table: Table, counts: Counts | None) -> int:
    """Return which row these counts are; -1 where none is, or there are none."""
    if counts is None:
        return -1
    found = np.flatnonzero((table == np.array(counts)).all(axis=1))
    return int(found[0]) if len(found) else -1


@lru_cache(maxsize=256)
def _all(terms: _Terms, most: Counts) -> Table | None:
    """Return all that a job may have; None where these are too many."""
    table = every(terms, most, _CELLS)
    return None if table is None or len(table) > MOST else _kept(table)


@lru_cache(maxsize=1024)
def _others(
    terms: _Terms, most: Counts, node_sizes: tuple[frozenset[int], ...], order: tuple[int, ...]
) -> tuple[Table, list[Counts]]:
    """Return what is weighed besides what is near to what a job has, as a table and row by row."""
    rows = itertools.chain(
        _of_one_type(terms.minimum, most, node_sizes),
        _filled(terms, most, order) if terms.mix else (),
        _grid(most) if terms.mix else (),
    )
    table = as_table(list(dict.fromkeys(rows)), len(most))
    table = _kept(table[permitted(terms, table)])
    return table, list(map(tuple, table.tolist()))


def _kept(array: _Kind) -> _Kind:
    """Return an array that is remembered, and that nobody may change."""
    array.flags.writeable = False
    return array


def fastest_first(job: JobView, types: int) -> tuple[int, ...]:
    """Return the types by the rate of one device, the fastest first."""
    speed = job.rates(np.eye(types, dtype=np.int64))
    return tuple(np.argsort(-speed, kind="stable").tolist())


def _near(job: _Terms, most: Counts, free: Counts) -> Iterator[Counts]:
    current = (0,) * len(most) if job.current is None else job.current
    held = tuple(map(min, current, most))
    yield held
    room = job.maximum - sum(held)
    for g, count in enumerate(held):
        for step in (1, -1, min(free[g], room)):
            if 0 <= count + step <= most[g]:
                yield (*held[:g], count + step, *held[g + 1 :])
    everything = tuple(map(min, np.add(held, free).tolist(), most))
    yield _clipped(everything, job.maximum, range(len(most)))


def _of_one_type(
    minimum: int, most: Counts, node_sizes: tuple[frozenset[int], ...]
) -> tuple[Counts, ...]:
    rows = []
    for g, top in enumerate(most):
        sizes = {min(minimum, top), top}
        sizes |= {k * size for size in node_sizes[g] for k in range(1, top // size + 1)}
        count = 1
        while count <= top:
            sizes.add(count)
            count += 1 if count < 8 else count // 4
        ladder = sorted(size for size in sizes if max(1, minimum) <= size <= top)
        share = MOST // (2 * len(most))  # half of the room, evenly over the types
        for index in np.unique(np.linspace(0, len(ladder) - 1, share).round().astype(int)):
            if ladder:
                rows.append(single(len(most), g, ladder[index]))
    return tuple(rows)


def _filled(terms: _Terms, most: Counts, order: Sequence[int]) -> Iterator[Counts]:
    """Yield all of the fastest type, then of the two fastest, ...: up to minimum and to maximum."""
    for start in range(len(order)):
        for total in (max(1, terms.minimum), terms.maximum):
            yield _clipped(most, total, order[start:])
        yield _clipped(most, terms.maximum, order[: start + 1])


def _clipped(most: Counts, total: int, order: Sequence[int]) -> Counts:
    counts = [0] * len(most)
    for g in order:
        counts[g] = min(most[g], total - sum(counts))
    return tuple(counts)


def _grid(most: Counts) -> Iterator[Counts]:
    """Yield a grid of at most MOST cells: powers of 2, of 4, ...; at the end, none or all."""
    for base in (2, 4, 16):
        ladders = [_powers(top, base) for top in most]
        if math.prod(map(len, ladders)) <= MOST:
            yield from itertools.product(*ladders)
            return
    yield from itertools.islice(itertools.product(*(sorted({0, top}) for top in most)), MOST)


def _powers(top: int, base: int) -> list[int]:
    values, value = {0, top}, 1
    while value < top:
        values.add(value)
        value *= base
    return sorted(values)


def undominated(utility: NDArray[np.float64], within: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which configurations no other one beats with no more devices of any type; shape (C,).

    Of equals the smaller stays. Leaving the others out changes no optimum.

    Args:
        utility: of each, (C,).
        within: `contained` of their table.
    """
    beaten = within & (utility[:, None] >= utility)
    keep: NDArray[np.bool_] = ~np.logical_or.reduce(beaten, axis=0)
    return keep


def contained(table: Table) -> NDArray[np.bool_]:
    """Say whether row i has no more of any type than another row k, at [i, k]; shape (C, C).

    Args:
        table: configurations, (C, G), each of them once.
    """
    within: NDArray[np.bool_] = ~np.eye(len(table), dtype=bool)
    for counts in table.T:  # type by type: a reduction over an axis this short is slow
        within &= counts[:, None] <= counts
    return within
