"""Startups that share cores: against a clock of small ticks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.simulation._machine import Machine

SECONDS = st.floats(0.1, 3.0)
STAGES = st.lists(st.tuples(st.integers(1, 4), SECONDS), min_size=1, max_size=3)
TICK = 0.002


def ticked(starts: list[tuple[float, list[tuple[int, float]]]], cores: float) -> list[float]:
    """Play the same in small steps: the oracle."""
    left = [[list(stage) for stage in stages] for _, stages in starts]
    done, now = [math.nan] * len(starts), 0.0
    while any(math.isnan(end) for end in done):
        running = [i for i, (begun, _) in enumerate(starts) if begun <= now and left[i]]
        processes = sum(left[i][0][0] for i in running)
        now += TICK
        for i in running:
            left[i][0][1] -= TICK * min(1.0, cores / processes)
            if left[i][0][1] <= 0:
                left[i].pop(0)
                if not left[i]:
                    done[i] = now
    return done


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 4.0), STAGES), min_size=1, max_size=4),
    st.sampled_from([1.0, 2.0, 3.5, math.inf]),
)
def test_they_advance_alike(
    starts: list[tuple[float, list[tuple[int, float]]]], cores: float
) -> None:
    starts = sorted(starts, key=lambda start: start[0])
    machine = Machine(cores)
    startups = [machine.start(list(stages), begun) for begun, stages in starts]
    machine.advance(1e6)
    ends = [startup.done_at for startup in startups]
    assert ends == pytest.approx(ticked(starts, cores), abs=0.1)


def test_nothing_takes_no_time() -> None:
    assert Machine(2.0).start([(0, 5.0), (3, 0.0)], 7.0).done_at == 7.0


def test_a_clock_of_large_numbers_is_no_trap() -> None:
    """Unix seconds resolve 2e-7 s: a stage that is due then is over, all the same."""
    machine = Machine(2.0)
    startups = [machine.start([(1, 0.3), (n, 0.1)], 1.7e9 + 0.013 * n) for n in range(1, 9)]
    machine.advance(1.7e9 + 100)
    assert all(startup.done(1.7e9 + 60) for startup in startups)
