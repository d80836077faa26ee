"""Which measured ring tells of which devices: the slowest hop of a ring decides."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.hardware import Link
from staves.steptime import Communication, Ring, ring_share, ring_to_expect, rings_of

SIZES = 3_750_000, 1_250_000
BYTES = sum(SIZES)
TYPES = ("a", "b", "c", "d")

links = st.lists(st.floats(1e6, 1e10), min_size=len(TYPES), max_size=len(TYPES))
"""Bytes a second of each type's links."""


def through(bytes_per_second: float, types: str, devices: int, *, nodes: int = 2) -> Ring:
    seconds = float(ring_share(devices)) * BYTES / bytes_per_second
    communication = Communication((0.5, 1.0), (0.75 * seconds, 0.25 * seconds))
    return Ring(tuple(types), tuple(f"n{i}" for i in range(nodes)), devices, communication)


def seconds(ring: Ring | None, devices: int) -> float:
    assert ring is not None
    return sum(ring.of(devices).seconds)


@given(links, st.permutations(TYPES), st.integers(2, 9), st.integers(2, 9), st.data())
def test_a_mixed_ring_is_as_slow_as_its_slowest_link(
    speeds: list[float], order: list[str], devices: int, wanted: int, data: st.DataObject
) -> None:
    """Bytes over the slowest link, from rings of single types measured in any order."""
    of = dict(zip(TYPES, speeds, strict=True))
    rings = [through(of[name], name, devices) for name in order]
    mix = data.draw(st.sets(st.sampled_from(TYPES), min_size=1))
    expected = float(ring_share(wanted)) * BYTES / min(of[name] for name in mix)
    found = ring_to_expect(rings, mix, across=True)
    assert seconds(found, wanted) == pytest.approx(expected)


@given(links, st.data())
def test_any_measured_rings_that_cover_a_mix_bound_it_from_below(
    speeds: list[float], data: st.DataObject
) -> None:
    of = dict(zip(TYPES, speeds, strict=True))
    sets = list(chain.from_iterable(combinations(TYPES, n) for n in range(1, 5)))
    known = data.draw(st.lists(st.sampled_from(sets), min_size=1, unique=True))
    mix = set(data.draw(st.sampled_from(sets)))
    rings = [through(min(of[t] for t in types), "".join(types), 3) for types in known]
    found = ring_to_expect(rings, mix, across=True)
    true = float(ring_share(3)) * BYTES / min(of[t] for t in mix)
    parts = [set(types) for types in known if set(types) <= mix]
    if set().union(*parts) == mix:
        assert seconds(found, 3) == pytest.approx(true)
    elif any(set(types) >= mix for types in known):
        assert seconds(found, 3) >= true * (1 - 1e-12)
    elif parts:
        assert seconds(found, 3) <= true * (1 + 1e-12)
    else:
        assert found == rings[-1]


def test_a_ring_over_nodes_is_told_from_one_within() -> None:
    within, over = through(1e9, "a", 2, nodes=1), through(1e6, "a", 2)
    for rings in ([within, over], [over, within]):
        assert ring_to_expect(rings, "a", across=True) == over
        assert ring_to_expect(rings, "a", across=False) == within
        assert ring_to_expect(rings, "a") == rings[-1]
    slow = through(1e5, "b", 2, nodes=1)
    assert ring_to_expect([within, over, slow], "ab", across=True) == over
    assert ring_to_expect([within, slow], "ab", across=True) == slow


@given(links, st.sets(st.sampled_from(TYPES), min_size=1), st.integers(2, 9))
def test_over_nodes_no_ring_is_faster_than_the_declared_link(
    speeds: list[float], mix: set[str], devices: int
) -> None:
    """Where its types were only measured within nodes; else what was measured counts."""
    of = dict(zip(TYPES, speeds, strict=True))
    within = [replace(through(1e9, t, 2, nodes=1), sizes=SIZES) for t in TYPES]
    slowest = 8 * min(of[t] for t in mix)
    found = ring_to_expect(within, mix, across=True, link=Link(slowest))
    through_link = float(ring_share(devices)) * BYTES * 8 / slowest
    inside = float(ring_share(devices)) * BYTES / 1e9
    assert seconds(found, devices) == pytest.approx(max(through_link, inside))
    for link in (None, Link(slowest)):
        found = ring_to_expect(within, mix, across=False, link=link)
        assert seconds(found, devices) == pytest.approx(inside)
    over = [through(3e9, t, 3) for t in TYPES]
    found = ring_to_expect([*within, *over], mix, across=True, link=Link(1.0))
    assert seconds(found, devices) == pytest.approx(inside / 3)
    unsized = [through(1e9, t, 2, nodes=1) for t in TYPES]
    found = ring_to_expect(unsized, mix, across=True, link=Link(1.0))
    assert seconds(found, devices) == pytest.approx(inside)


def test_one_device_alone_tells_nothing() -> None:
    alone = Ring(("a",), ("n",), 1, Communication((1.0,), (0.5,)))
    assert ring_to_expect([alone], "a") is None
    assert alone.of(4) == alone.communication
    pair = through(1e6, "b", 2)
    assert ring_to_expect([pair, alone], "a") == pair
    assert ring_to_expect([], "a") is None
    with pytest.raises(InputError, match="0 devices"):
        Ring((), (), 0, Communication((1.0,), (0.0,)))


def test_rings_come_back_from_documents() -> None:
    rings = through(1e6, "a", 2), replace(through(1e5, "ab", 4), steps=7.0, sizes=SIZES)
    document = json.loads(json.dumps({"rings": [ring.to_document() for ring in rings]}))
    assert rings_of(document) == rings
    old = {"ready": [1.0], "seconds": [0.5], "world_size": 3, "communication_steps": 7.0}
    (ring,) = rings_of(old)
    assert ring == Ring((), (), 3, Communication((1.0,), (0.5,)), 7.0)
    assert ring_to_expect([ring], "ab", across=True) == ring
    assert ring_to_expect([ring, through(1e9, "a", 2)], "ab", across=True) != ring
    assert rings_of({"ready": None, "seconds": None, "world_size": 1}) == ()
