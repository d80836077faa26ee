"""Which measured ring tells of which devices: the slowest hop of a ring decides."""

from __future__ import annotations

import json
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.steptime import Communication, Ring, ring_share, ring_to_expect, rings_of

BYTES = 5_000_000
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
    rings = through(1e6, "a", 2), through(1e5, "ab", 4)
    document = json.loads(json.dumps({"rings": [ring.to_document() for ring in rings]}))
    assert rings_of(document) == rings
    old = {"ready": [1.0], "seconds": [0.5], "world_size": 3, "communication_steps": 7.0}
    (ring,) = rings_of(old)
    assert ring == Ring((), (), 3, Communication((1.0,), (0.5,)), 7.0)
    assert ring_to_expect([ring], "ab", across=True) == ring
    assert rings_of({"ready": None, "seconds": None, "world_size": 1}) == ()
