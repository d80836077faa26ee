"""What a policy may answer, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from staves.errors import InputError, StavesError
from staves.scheduling import (
    Decision,
    Fifo,
    Heet,
    JobView,
    Policy,
    View,
    check_quotas,
    decision_of,
    violation,
)
from staves.testing import Scaling, random_view

TYPES = ("a100", "t4")


def job(name: str, **fields: Any) -> JobView:
    return JobView(name, 0.0, Scaling((2.0, 1.0)), **{"maximum": 3, **fields})


VIEW = View(
    7.0,
    TYPES,
    (2, 2),
    ((2, 0), (0, 2)),
    (
        job("free"),
        job("pinned", current=(1, 0), elastic=False),
        job("picky", minimum=2, types=frozenset({1}), mix=False),
        job("guaranteed", current=(0, 1), guaranteed=1),
    ),
)
FINE = {"pinned": (1, 0), "guaranteed": (0, 1)}


class Says(Policy):
    """Answers what it was made with."""

    name = "says"

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def decide(self, view: View) -> Decision:
        return self._answer()  # type: ignore[no-any-return]


def chosen(**more: Any) -> Callable[[], Decision]:
    return lambda: Decision({**FINE, **more})


def test_what_keeps_to_the_rules_comes_back() -> None:
    given = Decision(FINE)
    assert decision_of(Says(lambda: given), VIEW) is given


@pytest.mark.parametrize(
    "counts", [[1, 1], np.array([1, 1]), (np.int32(1), np.int64(1))], ids=["list", "array", "numpy"]
)
def test_whole_numbers_of_any_kind_become_plain_ones(counts: object) -> None:
    decision = decision_of(Says(chosen(free=counts)), VIEW)
    assert decision.chosen["free"] == (1, 1)
    assert [type(n) for n in decision.chosen["free"]] == [int, int]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (chosen(ghost=(1, 0)), "gave devices to 'ghost', which is no active job"),
        (chosen(free=(2, 0)), "gave out 2 a100 . 1 t4 of 1 a100 . 2 t4"),
        (chosen(free=(0, 4)), "gave 'free' 4 t4, but it may have 1 to 3 devices"),
        (chosen(free=(0, 0)), "gave 'free' nothing, but it may have 1 to 3"),
        (chosen(free=(2, -1)), r"gave 'free' \(2, -1\), but"),
        (chosen(free=(1.0, 0.0)), r"gave 'free' \(1.0, 0.0\), but .* as whole numbers"),
        (chosen(free=(1,)), r"gave 'free' \(1,\), but .* for each of a100, t4"),
        (chosen(free=7), "gave 'free' 7, but"),
        (chosen(free="a100"), "gave 'free' 'a100', but"),
        (chosen(picky=(0, 1)), "gave 'picky' 1 t4, but it may have 2 to 3 devices of one type"),
        (chosen(picky=(1, 1)), "out of t4"),
        (chosen(pinned=(0, 1)), "gave 'pinned' 1 t4, but it is pinned: it keeps 1 a100"),
        (lambda: Decision({"guaranteed": (0, 1)}), "gave 'pinned' nothing, but it is pinned"),
        (lambda: Decision({"pinned": (1, 0)}), "gave 'guaranteed' nothing, but 1 of its 1 t4"),
        (lambda: Decision(FINE, value=3.0, bound=2.0), "a value of 3, above its bound 2"),
        (lambda: None, "returned None, which is no scheduling.Decision"),
        (lambda: FINE, "returned a dict, which is"),
        (lambda: Decision(None), "`chosen` is None"),  # type: ignore[arg-type]
        (lambda: 1 // 0, r"failed with ZeroDivisionError at test_contract.py:\d+: integer"),
    ],
)
def test_what_breaks_them_is_said_in_one_line(answer: Callable[[], Any], message: str) -> None:
    with pytest.raises(StavesError, match=message) as caught:
        decision_of(Says(answer), VIEW)
    assert caught.value.message.startswith("the policy 'says' ")
    assert "\n" not in str(caught.value)


def test_jobs_of_a_tenant_have_no_more_together_than_its_quota() -> None:
    jobs = tuple(replace(one, tenant="ann") for one in VIEW.jobs)
    asked = replace(VIEW, jobs=jobs, quotas={"ann": 3, "bob": 0})
    assert violation(asked, Decision({**FINE, "free": (1, 0)})) is None
    over = violation(asked, Decision({**FINE, "free": (1, 1)}))
    assert over == "gave jobs of 'ann' 4 devices together: its quota is 3"
    others = replace(asked, jobs=(replace(jobs[0], tenant=""), *jobs[1:]))
    assert violation(others, Decision({**FINE, "free": (1, 1)})) is None


def test_what_is_pinned_or_guaranteed_may_be_kept_above_a_quota_and_nothing_more() -> None:
    jobs = tuple(replace(one, tenant="ann") for one in VIEW.jobs)
    asked = replace(VIEW, jobs=jobs, quotas={"ann": 1})
    assert violation(asked, Decision(FINE)) is None
    over = violation(asked, Decision({**FINE, "free": (1, 0)}))
    assert over is not None
    assert over.endswith("its quota is 1, and 2 that they have already are kept")


def test_quotas_are_refused_for_policies_that_do_not_honour_them() -> None:
    check_quotas(Heet(), {"ann": 0})
    check_quotas(Fifo(), {})
    with pytest.raises(InputError, match="the policy 'fifo' does not honour quotas"):
        check_quotas(Fifo(), {"ann": 1})
    for wrong in ({"ann": -1}, {"": 1}):
        with pytest.raises(InputError, match="is none"):
            check_quotas(Heet(), wrong)


def test_other_counts_than_a_legal_decision_has_break_one_rule_or_none() -> None:
    """Whatever is wrong with it: adding a device beyond what is free is always noticed."""
    for seed in range(60):
        view = random_view(seed)
        decision = Fifo().decide(view)
        assert violation(view, decision) is None
        if view.jobs:
            far = {view.jobs[0].id: tuple(n + 1 for n in view.capacity)}
            assert violation(view, replace(decision, chosen={**decision.chosen, **far}))
