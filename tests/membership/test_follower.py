from __future__ import annotations

from typing import Any

import pytest

from staves.membership import Abandon, Commit, Follower


def commit(generation: int, members: tuple[int, ...] = (0, 1), **changes: Any) -> Commit:
    values: dict[str, Any] = {
        "to": members,
        "attempt": 1,
        "generation": generation,
        "members": members,
        "about": tuple({} for _ in members),
        "source": 0,
        "receivers": (),
        "step": 0,
        "switch": None,
        "store": 0,
    }
    return Commit(**{**values, **changes})


def in_force(step: int = 0) -> Follower:
    """Member 0, complete, in generation 1."""
    follower = Follower(0)
    follower.committed(commit(1, source=None, receivers=(1,)))
    assert follower.boundary(step, 0.0) == "switch"
    follower.switched()
    assert follower.answer() == (1, step, True)
    return follower


def test_a_joiner_waits_until_its_commit() -> None:
    follower = Follower(1)
    assert follower.boundary(0, 0.0) == "wait"
    follower.committed(commit(1, source=None, receivers=(1,)))
    assert follower.boundary(0, 0.0) == "switch"
    assert follower.switched().generation == follower.generation == 1
    assert follower.answer() == (1, 0, False)
    assert follower.boundary(0, 0.0) == "wait"
    follower.state_received()
    assert follower.answer() == (1, 0, True)
    assert follower.answer() is None
    assert follower.boundary(0, 0.0) == "go"


def test_a_joiner_switches_at_once_and_has_the_step_of_its_source() -> None:
    follower = Follower(1)
    follower.committed(commit(3, receivers=(1,), step=7, switch=7))
    assert follower.boundary(0, 0.0) == "switch"
    follower.switched()
    follower.state_received()
    assert follower.step == 7


def test_rule_01_a_broken_generation_is_abandoned_and_answered_at_the_boundary() -> None:
    follower = in_force()
    assert follower.boundary(4, 0.0) == "go"
    assert follower.proposed(2, broken=True) == Abandon(1)
    assert follower.answer() is None
    assert follower.boundary(4, 0.0) == "wait"
    assert follower.answer() == (2, 4, True)
    assert follower.boundary(4, 0.0) == "wait"
    assert follower.answer() is None


def test_rule_01_a_step_that_was_committed_after_the_notice_counts() -> None:
    follower = in_force()
    assert follower.boundary(4, 0.0) == "go"
    follower.proposed(2, broken=True)
    follower.stepped(5)
    follower.boundary(5, 0.0)
    assert follower.answer() == (2, 5, True)


def test_rule_04_a_planned_change_is_answered_inside_the_step_and_costs_none() -> None:
    follower = in_force()
    assert follower.boundary(4, 0.0) == "go"
    assert follower.proposed(2, broken=False) is None
    assert follower.answer() == (2, 5, True)
    assert [follower.boundary(s, 0.0) for s in (5, 6, 7)] == ["go", "go", "wait"]
    follower.committed(commit(2, switch=8, step=8))
    assert [follower.boundary(s, 0.0) for s in (7, 8)] == ["go", "switch"]


def test_rule_04_a_withdrawn_change_lets_the_member_go_on() -> None:
    follower = in_force()
    follower.proposed(2, broken=False)
    assert follower.boundary(2, 0.0) == "wait"
    follower.withdrawn(2)
    assert follower.boundary(2, 0.0) == "go"
    follower.committed(commit(2, switch=3))
    assert follower.boundary(3, 0.0) == "go"


def test_rule_05_an_old_number_is_refused() -> None:
    follower = in_force()
    follower.committed(commit(1))
    assert follower.boundary(1, 0.0) == "go"
    follower.proposed(5, broken=True)
    follower.committed(commit(4))
    assert follower.proposed(4, broken=True) is None
    assert follower.boundary(1, 0.0) == "wait"
    follower.committed(commit(5))
    assert follower.boundary(1, 0.0) == "switch"


def test_rule_05_a_repeated_notice_changes_nothing() -> None:
    follower = in_force()
    assert follower.proposed(2, broken=False) is None
    assert follower.answer() == (2, 0, True)
    assert follower.proposed(2, broken=False) is None
    assert follower.answer() is None


def test_a_broken_notice_drops_the_commit_that_waits_for_its_step() -> None:
    follower = in_force()
    follower.boundary(3, 0.0)
    follower.proposed(2, broken=False)
    follower.committed(commit(2, switch=6, step=6))
    assert follower.proposed(3, broken=True) == Abandon(1)
    assert follower.boundary(6, 0.0) == "wait"
    assert follower.answer() == (3, 6, True)
    with pytest.raises(LookupError):
        follower.switched()
    follower.committed(commit(2, switch=6, step=6))
    assert follower.boundary(6, 0.0) == "wait"


def test_a_broken_generation_is_not_healed_by_a_withdrawal() -> None:
    follower = in_force()
    follower.proposed(2, broken=True)
    follower.withdrawn(2)
    assert follower.boundary(0, 0.0) == "wait"


def test_who_is_not_in_the_commit_leaves_at_its_step() -> None:
    follower = in_force()
    follower.committed(commit(2, members=(1,), switch=2, step=2, source=1))
    assert [follower.boundary(s, 0.0) for s in (0, 1, 2)] == ["go", "go", "leave"]
    assert follower.answer() == (2, 2, True)
    assert follower.boundary(2, 0.0) == "leave"
    assert follower.answer() is None


def test_rule_06_a_receiver_is_incomplete_until_its_state_has_come() -> None:
    follower = in_force()
    follower.proposed(2, broken=True)
    follower.boundary(3, 0.0)
    follower.committed(commit(2, source=1, receivers=(0,), step=4))
    assert follower.boundary(3, 0.0) == "switch"
    follower.switched()
    assert follower.proposed(3, broken=True) == Abandon(2)
    follower.boundary(3, 0.0)
    assert follower.answer() == (3, 3, False)


def test_rule_07_an_exception_inside_the_update_makes_incomplete_and_is_told() -> None:
    follower = in_force()
    follower.boundary(3, 0.0)
    follower.incomplete()
    assert follower.answer() == (1, 3, False)
    assert follower.boundary(3, 0.0) == "wait"


def test_rule_07_an_incomplete_member_does_not_carry_a_planned_commit_out() -> None:
    follower = in_force()
    follower.committed(commit(2, switch=3, step=3))
    follower.boundary(2, 0.0)
    follower.incomplete()
    assert follower.boundary(3, 0.0) == "wait"


def test_rule_14_no_step_without_the_lease() -> None:
    follower = in_force()
    assert follower.boundary(0, 1e9) == "go"
    follower.lease(10.0)
    assert follower.boundary(1, 9.9) == "go"
    assert follower.boundary(2, 10.0) == "wait"
    follower.lease(20.0)
    assert follower.boundary(2, 10.0) == "go"


def test_rule_14_no_switch_without_the_lease() -> None:
    follower = in_force()
    follower.lease(10.0)
    follower.committed(commit(2))
    assert follower.boundary(0, 11.0) == "wait"


def test_a_step_that_is_voided_by_all_is_asked_for_again() -> None:
    follower = in_force()
    assert follower.boundary(3, 0.0) == "go"
    assert follower.boundary(3, 0.0) == "go"
