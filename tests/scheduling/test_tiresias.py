from __future__ import annotations

from dataclasses import replace

from staves.scheduling import JobView, Tiresias, View
from staves.testing import Scaling

LONG = 16 * 3600.0


def view(capacity: tuple[int, int], *jobs: JobView) -> View:
    return View(1e6, ("slow", "fast"), capacity, (capacity,), jobs)


def job(name: str, need: int = 1, **more: object) -> JobView:
    rates = Scaling((1.0, 3.0))
    return JobView(name, 0.0, rates, 1e4, requested=need, maximum=64, **more)  # type: ignore[arg-type]


def test_who_has_had_little_goes_before_who_has_had_much() -> None:
    jobs = job("old", attained=LONG, current=(0, 1)), job("new")
    decision = Tiresias().decide(view((0, 1), *jobs))
    assert decision.chosen == {"new": (0, 1)}
    assert "second queue" in decision.reasons["old"].text
    still = replace(jobs[0], attained=LONG - 1)
    assert Tiresias().decide(view((0, 1), still, jobs[1])).chosen == {"old": (0, 1)}


def test_in_the_first_queue_who_came_first_in_the_second_who_started_first() -> None:
    first = job("x"), job("y")
    assert Tiresias().decide(view((0, 1), *first)).chosen == {"x": (0, 1)}
    second = job("x", attained=LONG, age=10.0), job("y", attained=LONG, age=20.0)
    assert Tiresias().decide(view((0, 1), *second)).chosen == {"y": (0, 1)}


def test_what_does_not_fit_is_passed_over() -> None:
    jobs = job("x", 3), job("y", 5), job("z", 1)
    assert Tiresias().decide(view((0, 4), *jobs)).chosen == {"x": (0, 3), "z": (0, 1)}


def test_jobs_are_rigid_of_one_type_and_stay() -> None:
    assert Tiresias().decide(view((2, 2), job("x", 3))).chosen == {}
    assert Tiresias().decide(view((3, 2), job("x", 3))).chosen == {"x": (3, 0)}
    assert Tiresias().decide(view((3, 3), job("x", 3))).chosen == {"x": (0, 3)}
    stays = job("x", 3, current=(3, 0))
    assert Tiresias().decide(view((3, 3), stays)).chosen == {"x": (3, 0)}
    assert Tiresias(threshold=0.0).decide(view((3, 3), stays)).chosen == {"x": (3, 0)}
