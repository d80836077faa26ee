from __future__ import annotations

from typing import Any

from staves.engines.local._pulse import LATE, Pulse


def beat(waits: bool = False) -> dict[str, Any]:
    return {"kind": "beat", "waits": waits}


def step(number: int) -> dict[str, Any]:
    return {"kind": "step", "step": number}


def test_only_a_question_without_an_answer_counts_as_silence() -> None:
    pulse = Pulse(silence=10.0)
    pulse.asked(0, 0.0)
    pulse.asked(1, 0.0)
    pulse.heard(1, beat(), 0.1)
    assert pulse.silent(1000.0) == []  # member 0 has never answered, member 1 always
    pulse.asked(1, 1000.0)
    pulse.asked(1, 1003.0)  # does not begin anew
    assert pulse.silent(1009.9) == []
    assert pulse.silent(1010.0) == [1]
    pulse.heard(1, step(3), 1010.1)
    assert pulse.silent(2000.0) == []


def test_one_that_has_ended_is_not_silent() -> None:
    pulse = Pulse(silence=10.0)
    pulse.heard(0, beat(), 0.0)
    pulse.asked(0, 1.0)
    pulse.forget(0)
    assert pulse.silent(100.0) == []


def training(*members: int) -> Pulse:
    pulse = Pulse(silence=10.0)
    for member in members:
        pulse.heard(member, {"kind": "formed", "step": 4}, 0.0)
        pulse.heard(member, step(4), 1.0)
    return pulse


def test_the_rank_that_the_others_wait_for_is_named_once_a_step() -> None:
    pulse = training(0, 1, 2)
    pulse.heard(0, beat(waits=True), 3.0)
    pulse.heard(1, beat(waits=True), 3.0)
    pulse.heard(2, beat(), 3.0)
    assert pulse.late(LATE) == []
    ((member, line),) = pulse.late(LATE + 1.0)
    assert member == 2
    assert "step 5 for 60 s" in line
    assert pulse.late(LATE + 2.0) == []
    pulse.heard(2, step(5), LATE + 3.0)
    pulse.heard(0, beat(waits=True), LATE + 4.0)
    assert [m for m, _ in pulse.late(7 * LATE)] == [2]


def test_where_nobody_waits_or_an_evaluation_comes_forward_nobody_is_late() -> None:
    pulse = training(0, 1)
    assert pulse.late(10 * LATE) == []
    pulse.heard(0, beat(waits=True), 3.0)
    pulse.heard(1, {"kind": "evaluating"}, 9.5 * LATE)
    assert pulse.late(10 * LATE) == []
    assert pulse.late(11 * LATE) != []


def test_steps_that_take_long_have_longer() -> None:
    pulse = training(0, 1)
    pulse.heard(0, step(5), 101.0)
    pulse.heard(1, step(5), 101.0)
    pulse.heard(0, beat(waits=True), 102.0)
    assert pulse.late(101.0 + 499.0) == []
    assert [m for m, _ in pulse.late(101.0 + 500.0)] == [1]
