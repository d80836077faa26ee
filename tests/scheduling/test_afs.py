from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from staves.scheduling import Afs
from tests.scheduling.curves import concave, job, view


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_of_two_jobs_the_device_goes_where_both_end_sooner(seed: int) -> None:
    """Their completion times played through: the longer goes on as fast as it ever may."""
    rng = np.random.default_rng(seed)
    a, b = concave(rng, 2), concave(rng, 2)
    work = {"a": float(rng.uniform(1, 5)), "b": float(rng.uniform(5, 100))}
    soon, late = work["a"] / a[0], work["b"] / b[1]
    assume(soon < late)
    to_a = work["a"] / a[1]
    to_a += to_a + (work["b"] - b[0] * to_a) / b[1]
    to_b = soon + work["b"] / b[1]
    assume(abs(to_a - to_b) > 1e-6)
    jobs = job("a", a, remaining=work["a"]), job("b", b, remaining=work["b"])
    chosen = Afs().decide(view((3,), *jobs)).chosen
    assert chosen == ({"a": (2,), "b": (1,)} if to_a < to_b else {"a": (1,), "b": (2,)})


def test_where_devices_are_too_few_the_shortest_run() -> None:
    jobs = [
        job(name, (1.0, 1.9), remaining=work) for name, work in zip("xyz", (9, 1, 4), strict=True)
    ]
    assert Afs().decide(view((2,), *jobs)).chosen == {"y": (1,), "z": (1,)}


def test_growth_ends_where_one_more_device_gains_nothing() -> None:
    dented = job("x", (1.0, 1.5, 1.4, 3.0), remaining=10.0)
    assert Afs().decide(view((4,), dented)).chosen == {"x": (2,)}
    only_some = job("x", (1.0, 0.0, 1.5), remaining=10.0)  # two devices do not run it
    assert Afs().decide(view((4,), only_some)).chosen == {"x": (3,)}


def test_a_move_must_pay_for_its_pause() -> None:
    stays = job("x", (1.0,), (2.0,), remaining=100.0, current=(1, 0), resize_pause=60.0)
    assert Afs().decide(view((1, 1), stays)).chosen == {"x": (1, 0)}
    moves = job("x", (1.0,), (2.0,), remaining=100.0, current=(1, 0), resize_pause=40.0)
    assert Afs().decide(view((1, 1), moves)).chosen == {"x": (0, 1)}
