from __future__ import annotations

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
            change = job.start_pause if job.current is None else job.resize_pause
            assert option.pause == (job.pause_left if option.counts == job.current else change)


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
