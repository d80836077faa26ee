from __future__ import annotations

from staves.scheduling import Fifo, JobView, Srtf, View
from staves.testing import Scaling


def view(capacity: tuple[int, int], *jobs: JobView) -> View:
    return View(0.0, ("slow", "fast"), capacity, (capacity,), jobs)


def job(name: str, work: float = 100.0, *, need: int = 1, **more: object) -> JobView:
    rates = Scaling((1.0, 3.0))
    return JobView(name, 0.0, rates, work, minimum=need, maximum=need + 2, **more)  # type: ignore[arg-type]


def test_the_first_in_the_line_holds_up_all_behind_it() -> None:
    decision = Fifo().decide(view((1, 2), job("x", need=2), job("y", need=2), job("z")))
    assert decision.chosen == {"x": (0, 2)}
    assert "first in the line" in decision.reasons["y"].text
    assert "behind y" in decision.reasons["z"].text


def test_fifo_takes_nothing_from_who_runs() -> None:
    running = job("late", current=(0, 2))
    decision = Fifo().decide(view((1, 2), job("early"), running))
    assert decision.chosen == {"late": (0, 2), "early": (1, 0)}


def test_one_type_is_better_than_a_faster_mix() -> None:
    assert Fifo().decide(view((2, 1), job("x", need=2))).chosen == {"x": (2, 0)}
    assert Fifo().decide(view((1, 2), job("x", need=3))).chosen == {"x": (1, 2)}
    pure = job("x", need=3, mix=False)
    assert Fifo().decide(view((1, 2), pure)).chosen == {}


def test_the_shortest_takes_the_devices_of_longer_ones() -> None:
    long, short = job("long", 1000.0, current=(0, 1)), job("short", 10.0)
    assert Srtf().decide(view((0, 1), long, short)).chosen == {"short": (0, 1)}
    guaranteed = job("long", 1000.0, current=(0, 1), guaranteed=1)
    assert Srtf().decide(view((0, 1), guaranteed, short)).chosen == {"long": (0, 1)}


def test_what_does_not_fit_is_passed_over() -> None:
    jobs = job("x", 10.0), job("y", 20.0, need=2), job("z", 30.0)
    decision = Srtf().decide(view((1, 1), *jobs))
    assert decision.chosen == {"x": (0, 1), "z": (1, 0)}
    assert "x" in decision.reasons["y"].text


def test_of_unknown_lengths_that_which_had_least_goes_first() -> None:
    inf = float("inf")
    jobs = job("x", inf, attained=9.0), job("y", inf, attained=3.0), job("z", 1e9)
    assert Srtf().decide(view((0, 2), *jobs)).chosen == {"z": (0, 1), "y": (0, 1)}
