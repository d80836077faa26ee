from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from staves.scheduling import Heet, JobView, View
from staves.testing import Scaling, random_view
from tests.scheduling.heet.envy import nobody_is_envious
from tests.scheduling.heet.test_configurations import large

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_every_job_has_its_choice_and_the_three_best_others(seed: int) -> None:
    view = random_view(seed)
    decision = Heet().decide(view)
    for job in view.jobs:
        reason = decision.reasons[job.id]
        if job.pinned or job.id not in decision.weighed:
            continue
        table, utility = decision.weighed[job.id]
        options = ([reason.chosen] if reason.chosen else []) + list(reason.alternatives)
        assert len(reason.alternatives) == min(3, len(table) - (reason.chosen is not None))
        best = sorted(utility.tolist(), reverse=True)
        told = sorted((option.utility for option in options), reverse=True)
        assert told[:3] == pytest.approx(best[:3])
        for option in options:
            assert option.rate == pytest.approx(job.rates(np.array([option.counts]))[0])
            if option.counts == job.current:
                assert option.pause == job.pause_left
            elif job.current is None:
                assert option.pause == job.start_pause
            else:
                least, most = job.resize_pause, job.resize_pause + job.resize_delay
                assert option.pause is not None
                assert least <= option.pause <= most


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_who_is_said_to_gain_more_does(seed: int) -> None:
    view = random_view(seed)
    decision = Heet().decide(view)
    free = np.array(view.capacity) - sum(np.array(c) for c in decision.chosen.values())
    by_label = {job.label: job for job in view.jobs}
    for job in view.jobs:
        reason = decision.reasons[job.id]
        mine = reason.chosen.utility if reason.chosen else 0.0
        had = np.array(decision.chosen.get(job.id, (0,) * len(free)))
        for option in reason.alternatives:
            who, gains, what = option.why.partition(" gains more from the ")
            who, others, _ = who.partition(" and others gain more from the ")
            if not (gains or others):
                continue
            assert option.utility > mine
            rival, missing = by_label[who], np.array(option.counts) - had - free
            assert not rival.guaranteed or rival.current is None
            has = np.array(decision.chosen[rival.id])
            if others or (missing > has).any():
                continue
            assert missing[view.types.index(what)] > 0
            table, utility = decision.weighed[rival.id]
            left = (table <= has - np.maximum(missing, 0)).all(axis=1)
            worth = float(utility[(table == has).all(axis=1)][0])
            loses = worth - float(utility[left].max(initial=0.0))
            assert loses >= (option.utility - mine) * (1 - 1e-9) - 1e-9


def test_one_that_is_guaranteed_its_devices_keeps_them_whatever_others_would_gain() -> None:
    keeps = JobView(
        "g", 0.0, Scaling((1.0,)), 1e5, weight=0.02, maximum=2, current=(2,), guaranteed=2
    )
    waits = JobView("x", 0.0, Scaling((1.0,)), 1e5, weight=100.0)
    told = Heet().decide(View(0.0, ("a",), (2,), ((2,),), (keeps, waits))).reasons["x"].text
    assert told.startswith("It waits: jobs that are guaranteed devices keep the a;")
    view = View(0.0, ("a",), (2,), ((2,),), (replace(keeps, settling=True), waits))
    told = Heet().decide(view).reasons["x"].text
    assert told.startswith("It waits: jobs that have just changed keep the a;")


def test_what_is_worth_less_to_a_job_itself_nobody_has_kept_from_it() -> None:
    def job(name: str, speeds: tuple[float, float], current: tuple[int, int]) -> JobView:
        return JobView(name, 0.0, Scaling(speeds), 1e5, current=current)

    jobs = job("x", (2.0, 1.0), (1, 0)), job("y", (2.0, 1.9), (0, 1))
    (other,) = (
        Heet().decide(View(0.0, ("a", "b"), (1, 1), ((1, 1),), jobs)).reasons["x"].alternatives
    )
    assert (other.counts, other.why) == ((0, 1), "it is not faster")


def test_one_that_is_being_measured_is_not_called_inelastic() -> None:
    job = JobView(
        "x", 0.0, Scaling((1.0,)), 1e5, maximum=4, current=(2,), elastic=False, settling=True
    )
    told = Heet().decide(View(0.0, ("a",), (4,), ((4,),), (job,))).reasons["x"].text
    assert told == "2 a: it is being measured, and keeps what it has."


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_nobody_would_rather_have_another_option_at_its_price(seed: int) -> None:
    """But for what has no price to it: the devices that jobs are guaranteed, and whole devices."""
    view = random_view(seed)
    assume(not any(job.guaranteed for job in view.jobs))
    nobody_is_envious(view)


def test_price_and_pause_are_told_in_words() -> None:
    rates = Scaling((1.0,))
    jobs = tuple(JobView(name, 0.0, rates, 1e4, start_pause=30.0) for name in ("one", "two"))
    decision = Heet().decide(View(0.0, ("a",), (1,), ((1,),), jobs))
    (has,) = decision.chosen
    waits = "two" if has == "one" else "one"
    assert " to it, and " in decision.reasons[has].text
    assert decision.reasons[has].text.endswith(" to others.")
    assert "1 a would be worth " in decision.reasons[waits].text
    assert decision.reasons[waits].alternatives[0].pause == 30.0


def test_a_change_costs_what_is_not_trained_while_its_devices_are_on_their_way() -> None:
    rates = Scaling((1.0, 2.0))
    has = JobView("x", 0.0, rates, 1e4, current=(1, 0), resize_pause=0.5, resize_delay=6.0)
    view = View(0.0, ("a", "b"), (1, 1), ((1, 1),), (has,))
    chosen = Heet().decide(view).reasons["x"].chosen
    assert chosen is not None
    assert chosen.counts == (0, 1)
    assert chosen.pause == 0.5 + 3.0  # six seconds of `a` do what three of `b` would
    starting = Heet().decide(replace(view, jobs=(replace(has, pause_left=2.0),))).reasons["x"]
    assert starting.chosen is not None
    assert starting.chosen.pause == 0.5 + 6.0  # nothing is trained meanwhile


def test_devices_that_nobody_else_wants_have_no_price() -> None:
    job = JobView("one", 0.0, Scaling((1.0,)), 1e4, maximum=2)
    reason = Heet().decide(View(0.0, ("a",), (4,), ((4,),), (job,))).reasons["one"]
    assert reason.chosen is not None
    assert reason.chosen.price == 0.0
    assert "to others" not in reason.text


def test_reasons_of_many_jobs_name_who_has_it_and_who_waits_ahead() -> None:
    view = large(5, most_jobs=400)
    decision = Heet().decide(view)
    names = {job.label for job in view.jobs}
    assert len(view.jobs) > 100
    for job in view.jobs:
        for option in decision.reasons[job.id].alternatives:
            if " more from the " in option.why:
                assert option.why.split(" gains")[0].split(" and others")[0] in names - {job.label}


def test_a_reason_says_whether_the_deadline_is_met() -> None:
    def told(deadline: float) -> str:
        job = JobView("one", 0.0, Scaling((1.0,)), 7200.0, start_pause=60.0, deadline=deadline)
        view = View(100.0, ("a",), (1,), ((1,),), (job,))
        return Heet().decide(view).reasons["one"].text

    assert "That meets its deadline, in 2.1 h." in told(100.0 + 7500.0)
    assert "That misses its deadline, in 2.0 h." in told(100.0 + 7250.0)
    assert "Its deadline has passed." in told(99.0)
    assert "deadline" not in told(np.inf)
