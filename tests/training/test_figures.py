"""Figures: what was measured of one set of devices is never told of another."""

from __future__ import annotations

from staves.training._figures import Figures
from staves.training._planner import Plan
from staves.training._timing import StepRecord

EVEN = Plan(0, "even", (6, 6))
OPTIMAL = Plan(1, "optimal", (8, 4), predicted_seconds=0.5, even_seconds=0.7)


def train(figures: Figures, plan: Plan, *seconds: float) -> None:
    for each in seconds:
        record = StepRecord(0, plan.number, 6, 0.0, 0.0, (), (), each)
        figures.measured(record, plan, settled=True)


def test_the_even_split_is_that_of_the_devices_in_use() -> None:
    figures = Figures(None)
    figures.begin_generation(["a", "b"])
    train(figures, EVEN, 1.0, 2.0, 3.0)
    train(figures, OPTIMAL, 1.0)
    assert figures.even(OPTIMAL) == (2.0, "measured")
    figures.begin_generation(["a", "b"])  # one was lost, and is back
    assert figures.even(OPTIMAL) == (2.0, "measured")
    figures.begin_generation(["a", "c"])
    assert figures.even(OPTIMAL) == (0.7, "predicted")
    figures.begin_generation(["a", "b"])
    assert figures.even(OPTIMAL) == (0.7, "predicted"), "it is not kept: much may have changed"


def test_an_even_phase_that_a_change_cuts_short_counts_for_its_own_devices() -> None:
    figures = Figures(None)
    figures.begin_generation(["a", "b"])
    train(figures, EVEN, 1.0, 3.0)
    figures.begin_generation(["a", "c"])
    train(figures, OPTIMAL, 1.0)
    assert figures.even(OPTIMAL) == (0.7, "predicted")


def test_what_is_saved_says_whose_it_is() -> None:
    figures, other = Figures(None), Figures(None)
    figures.begin_generation(["a", "b"])
    train(figures, EVEN, 1.0)
    figures.close_plan()
    other.load_document(figures.to_document())
    other.begin_generation(["a", "b"])
    assert other.even(None) == (1.0, "measured")
    other.load_document(figures.to_document())
    other.begin_generation(["a"])
    assert other.even(None) == (None, "predicted")


def test_step_times_of_a_plan_are_not_those_of_the_one_before() -> None:
    figures = Figures(None)
    figures.begin_generation(["a", "b"])
    train(figures, EVEN, 2.0)
    figures.begin_generation(["a"])
    assert figures.step_percentiles(of_plan=True) is None
    assert figures.step_percentiles() == {"p50": 2.0, "p95": 2.0}
    train(figures, OPTIMAL, 1.0)
    assert figures.step_percentiles(of_plan=True) == {"p50": 1.0, "p95": 1.0}


def test_the_pause_is_that_of_the_generation_in_force() -> None:
    figures = Figures(None)
    figures.begin_generation(["a", "b"])
    assert figures.pause_seconds is None
    figures.begin_generation(["a"])
    figures.pauses.append(0.25)
    assert figures.pause_seconds == 0.25
    figures.begin_generation(["a", "b"])
    assert figures.pause_seconds is None
