"""From timed buffers to a link, and from a link to buckets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.hardware import Link
from staves.steptime import Communication, Ring, fit_link

SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 22]


@given(st.floats(1e5, 1e12), st.floats(0, 0.1), st.integers(2, 4))
def test_an_exact_line_comes_back(speed: float, latency: float, count: int) -> None:
    sizes = SIZES[:count]
    found = fit_link(sizes, [latency + 8 * size / speed for size in sizes])
    longest = latency + 8 * sizes[-1] / speed
    for size in sizes:  # the speed itself is lost where latency is nearly all
        seconds = found.latency + 8 * size / found.bits_per_second
        assert seconds == pytest.approx(latency + 8 * size / speed, abs=1e-6 * longest)


@given(st.floats(1e6, 1e10), st.integers(1, 1 << 16))
def test_a_first_burst_does_not_make_it_faster(speed: float, burst: int) -> None:
    """As a shaped link lets it through at once."""
    found = fit_link(SIZES, [max(1e-6, 8 * (size - burst) / speed) for size in SIZES])
    assert found.bits_per_second == pytest.approx(speed, rel=0.01)
    assert found.latency == 0.0


def test_the_larger_buffers_decide() -> None:
    seconds = [8 * size / 2e8 for size in SIZES]
    seconds[1] *= 1.6  # a busy moment
    assert fit_link(SIZES, seconds).bits_per_second == pytest.approx(2e8, rel=0.03)


def test_where_larger_ones_take_no_longer_it_is_not_slower_than_seen() -> None:
    assert fit_link([1000, 4000], [0.2, 0.1]) == Link(8 * 4000 / 0.1)


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [
        ([], []),
        ([8], [1.0]),
        ([8, 8], [1.0, 1.0]),
        ([8, 16], [1.0]),
        ([8, 16], [1.0, 0.0]),
        ([0, 16], [1.0, 2.0]),
        ([8, 16], [1.0, math.nan]),
    ],
)
def test_what_is_no_measurement(sizes: list[int], seconds: list[float]) -> None:
    with pytest.raises(InputError):
        fit_link(sizes, seconds)


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1)), min_size=1, max_size=4),
    st.integers(2, 6),
    st.integers(2, 9),
    st.floats(1e6, 1e10),
    st.floats(0, 0.1),
)
def test_buckets_over_a_link_wait_for_bytes_and_rounds(
    buckets: list[tuple[int, float]], measured: int, devices: int, speed: float, latency: float
) -> None:
    sizes, seconds = zip(*buckets, strict=True)
    ready = tuple((j + 1) / len(sizes) for j in range(len(sizes)))
    ring = Ring(("a",), ("m",), measured, Communication(ready, seconds), 9.0, sizes)
    found = ring.behind(Link(speed, latency)).of(devices)
    for size, known, over in zip(sizes, seconds, found.seconds, strict=True):
        # 2 (n - 1) rounds, in each of which a device sends the n-th part of the bytes.
        rounds, piece = 2 * (devices - 1), 8 * size / devices / speed
        through = rounds * (latency / 2 + piece)
        within = known * (rounds / devices) / (2 * (measured - 1) / measured)
        assert over == pytest.approx(max(within, through))
    table = ring.behind(Link(speed, latency)).seconds_of(np.array([1, devices]))
    assert table[0].tolist() == [0.0] * len(sizes)
    assert tuple(table[1]) == found.seconds


def test_a_device_alone_is_no_ring_of_more() -> None:
    alone = Ring(("a",), ("m",), 1, Communication((1.0,), (0.5,)), 9.0, (8,))
    assert alone.of(4) == alone.communication
    with pytest.raises(InputError, match="one device"):
        alone.seconds_of(np.array([2]))
