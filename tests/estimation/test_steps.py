from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError
from staves.estimation import EvenRates, JobProfile, ProfileRates, TypeLines
from staves.hardware import Configuration, Layout, Link
from staves.steptime import Communication, Line, Ring, even_split, integer_split

seeds = st.integers(0, 2**32 - 1)


def random_lines(rng: np.random.Generator, types: int) -> TypeLines:
    """Very unlike types, with floors, flat lines and bounds among them."""

    def line() -> Line:
        slope = 10 ** rng.uniform(-5, -2) if rng.random() < 0.9 else 0.0
        floor = rng.uniform(0, 0.1) if rng.random() < 0.3 else 0.0
        return Line(float(rng.uniform(0, 0.05)), float(slope), float(floor))

    def bound() -> tuple[int, int | None]:
        low = int(rng.integers(0, 4)) if rng.random() < 0.2 else 0
        return low, low + int(rng.integers(1, 40)) if rng.random() < 0.4 else None

    def communication() -> Communication:
        buckets = int(rng.integers(1, 5))
        ready = np.sort(rng.random(buckets))
        ready[-1] = 1.0
        wire = rng.uniform(0, 0.02, buckets)
        return Communication(tuple(ready.tolist()), tuple(wire.tolist()))

    def ring() -> Ring:
        among = tuple(name for name in names if rng.random() < 0.5)
        nodes = tuple(f"n{i}" for i in range(int(rng.integers(1, 3))))
        shared = communication()
        sizes = tuple(rng.integers(0, 100_000, len(shared.ready)).tolist())
        return Ring(among, nodes, int(rng.integers(2, 6)), shared, 9.0, sizes)

    def layout() -> Layout:
        shapes = rng.integers(0, 4, (int(rng.integers(1, 4)), types)).tolist()
        links = [
            (pair, Link(float(rng.uniform(1e6, 1e9)), float(rng.uniform(0, 1e-3))))
            for pair in itertools.combinations_with_replacement(names, 2)
            if rng.random() < 0.7
        ]
        return Layout(
            tuple(Configuration(dict(zip(names, row, strict=True))) for row in shapes),
            tuple(links),
        )

    names = tuple(f"t{g}" for g in range(types))
    return TypeLines(
        names,
        tuple((line(), line()) for _ in range(types)),
        tuple(bound() for _ in range(types)),
        communication() if rng.random() < 0.8 else None,
        int(rng.integers(2, 6)),
        tuple(ring() for _ in range(int(rng.integers(0, 4)))),
        layout() if rng.random() < 0.5 else None,
    )


@given(seeds)
@settings(max_examples=300)
def test_step_times_are_those_of_the_integer_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    types = int(rng.integers(1, 4))
    lines, batch = random_lines(rng, types), int(rng.integers(1, 300))
    table = rng.integers(0, 4, (12, types))
    for counts, seconds in zip(table.tolist(), lines.step_seconds(batch, table), strict=True):
        if not any(counts):
            assert seconds == np.inf
            continue
        try:
            expected = integer_split(lines.model(tuple(counts)), batch).step_seconds
        except InputError:
            expected = np.inf
        assert seconds == pytest.approx(expected, rel=1e-9)


@given(seeds)
@settings(max_examples=100)
def test_even_rates_are_those_of_the_even_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines, batch = random_lines(rng, 3), int(rng.integers(1, 300))
    table = rng.integers(0, 4, (6, 3))
    even, best = EvenRates(batch, lines)(table), ProfileRates(batch, lines)(table)
    assert (even <= best * (1 + 1e-9)).all()
    for counts, rate in zip(table.tolist(), even, strict=True):
        try:
            expected = batch / even_split(lines.model(tuple(counts)), batch).step_seconds
        except InputError:
            expected = 0.0
        if lines.communication is not None:
            assert rate == pytest.approx(expected, rel=1e-12)


def test_a_large_batch_on_very_unlike_types() -> None:
    """What rounding leaves over goes to the fast type alone, many samples deep."""
    slow, fast = Line(0.0, 10.0), Line(0.0, 1e-4)
    lines = TypeLines(("slow", "fast"), ((slow, slow), (fast, fast)), ((0, None),) * 2)
    for batch in (1, 7, 1000, 99_999, 100_001):
        table = np.array([[1, 0], [30, 1], [1, 1], [3, 2]])
        expected = [integer_split(lines.model(tuple(row)), batch).step_seconds for row in table]
        assert lines.step_seconds(batch, table) == pytest.approx(expected, rel=1e-9)


def test_rings_send_two_n_minus_one_over_n_of_the_bytes() -> None:
    profile = JobProfile(
        8,
        {"a": (Line(0.0, 0.0), Line(0.0, 0.0, 1.0))},
        Communication((1.0,), (3.0,)),
        world_size=4,
    )
    rates = profile.rates(("a",))(np.array([[1], [2], [4], [8]]))
    assert 8 / rates == pytest.approx([1.0, 1 + 3 * (1 / 1.5), 1 + 3, 1 + 3 * (1.75 / 1.5)])
