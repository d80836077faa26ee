from __future__ import annotations

import pytest
from tests.membership.job import Job

from staves.membership import (
    Commit,
    Coordinator,
    End,
    Fail,
    Propose,
    Quarantine,
    Restart,
    Start,
    Withdraw,
)

TWO = ["a/0", "b/0"]


def test_the_first_generation_waits_for_all_that_were_started() -> None:
    job = Job(TWO)
    job.hello(0)
    assert not job.members
    job.hello(1)
    first = job.last(Commit)
    assert (first.members, first.source, first.receivers) == ((0, 1), None, (1,))
    assert (first.generation, first.step, first.switch, first.attempt) == (1, 0, None, 1)
    assert first.about == ({"member": 0}, {"member": 1})


def test_a_worker_that_dies_before_the_first_generation_is_started_again() -> None:
    job = Job(TWO)
    job.hello(0)
    job.die(1)
    assert job.last(Start) == Start(2, "b/0")
    job.hello(2)
    assert job.members == (0, 2)


def test_the_first_generation_goes_without_those_that_do_not_start() -> None:
    job = Job(TWO, start_within=100.0)
    job.hello(0)
    job.wait(99.0)
    assert not job.members
    job.wait(1.0)
    assert job.members == (0,)
    assert 1 in job.ended()


def test_rule_01_a_death_voids_the_step_of_all_survivors() -> None:
    job = Job(["a", "b", "c"]).formed(step=4)
    for member in job.members:
        assert job.boundary(member, 4) == "go"
    job.die(1)
    assert job.last(Propose) == Propose((0, 2), 2, broken=True)
    assert job.abandoned == {0: 1, 2: 1}
    assert [job.boundary(m, 4) for m in (0, 2)] == ["wait", "wait"]
    commit = job.last(Commit)
    assert (commit.members, commit.step, commit.switch) == ((0, 2), 4, None)
    assert (commit.source, commit.receivers) == (0, ())


def test_rule_02_the_highest_complete_step_wins_and_the_others_receive() -> None:
    job = Job(["a", "b", "c", "d"]).formed(step=4)
    for member in job.members:
        job.boundary(member, 4)
    for member in (2, 3):
        job.followers[member].stepped(5)
    job.die(0)
    for member in (1, 2, 3):
        job.boundary(member, job.followers[member].step)
    commit = job.last(Commit)
    assert (commit.members, commit.source, commit.step) == ((1, 2, 3), 2, 5)
    assert commit.receivers == (1,)


def test_rule_02_an_incomplete_member_with_a_higher_step_does_not_win() -> None:
    job = Job(["a", "b", "c"]).formed(step=4)
    job.followers[2].step = 5
    job.followers[2].complete = False
    job.die(0)
    job.boundary(2, 5)
    job.boundary(1, 4)
    assert (job.last(Commit).source, job.last(Commit).receivers) == (1, (2,))


def test_rule_04_a_joiner_is_asked_first_and_incumbents_go_on() -> None:
    job = Job(TWO).formed(step=4)
    job.want("a/0", "b/0", "c/0")
    job.held.add(2)
    job.hello(2)
    assert job.last(Propose) == Propose((2,), 2, broken=False)
    job.train(6)
    for member in (0, 1):
        job.boundary(member, 6)
    job.release(2)
    assert job.last(Propose) == Propose((0, 1), 2, broken=False)
    commit = job.last(Commit)
    assert (commit.members, commit.source, commit.receivers) == ((0, 1, 2), 0, (2,))
    assert commit.switch == commit.step == 9  # Inside step 6, the next boundary is 7.
    job.switch(2, received=False)
    job.train(9)
    job.switch(0, 1)
    assert job.coordinator.generation == 2


def test_rule_04_a_joiner_that_dawdles_is_left_out_and_ended() -> None:
    job = Job(TWO).formed()
    job.want(*TWO, "c/0", "d/0")
    job.held.add(2)
    job.hello(2, 3)
    job.wait(4.9)
    assert job.coordinator.generation == 1
    job.wait(0.2)
    assert job.last(Commit).members == (0, 1, 3)
    assert list(job.ended()) == [2]


def test_rule_04_a_joiner_that_dies_costs_no_step() -> None:
    job = Job(TWO).formed()
    job.want(*TWO, "c/0", "d/0")
    job.held |= {0, 2}
    job.hello(2, 3)
    job.die(2)
    assert not job.all(Withdraw)
    assert job.last(Propose).to == (0, 1)
    job.die(3)
    assert job.last(Withdraw) == Withdraw((0, 1), 2)
    assert job.abandoned == {}
    assert [job.boundary(0, step) for step in range(5)] == ["go"] * 5


def test_rule_04_the_next_proposal_has_a_new_number() -> None:
    job = Job(TWO).formed()
    job.want(*TWO, "c/0", "d/0")
    job.held.add(0)
    job.hello(2, 3)
    job.die(2)
    assert job.last(Withdraw) == Withdraw((0, 1, 3), 2)
    job.wait(5.0)
    assert job.last(Propose) == Propose((0, 1), 3, broken=False)
    job.release(0)
    assert job.all(Commit)[-1].generation == 3
    assert job.all(Commit)[-1].members == (0, 1, 3)


def test_rule_05_one_outstanding_proposal() -> None:
    job = Job(TWO).formed()
    job.want(*TWO, "c/0")
    job.held.add(0)
    job.hello(2)
    before = len(job.all(Propose))
    job.want(*TWO, "c/0", "d/0")
    job.hello(3)
    job.want("b/0", "c/0", "d/0")
    assert len(job.all(Propose)) == before
    job.release(0)
    assert job.last(Commit).members == (1, 2)
    assert job.last(Commit).to == (1, 2, 0)
    job.boundary(0, 0)
    job.switch(2)
    job.train(2)
    assert len(job.all(Commit)) == 2
    job.switch(1)
    assert job.last(Propose).to == (1, 2)
    assert job.last(Commit).members == (1, 2, 3)


def test_rule_05_a_wish_taken_back_is_withdrawn() -> None:
    job = Job(TWO).formed()
    job.held.add(1)
    job.want("a/0")
    assert job.last(Propose).to == (0, 1)
    job.want(*TWO)
    job.release(1)
    assert job.last(Withdraw).to == (0, 1)
    assert job.coordinator.generation == 1


def test_rule_05_a_late_answer_to_an_old_number_is_ignored() -> None:
    job = Job(["a", "b", "c"]).formed()
    job.die(2)
    job.do(job.coordinator.prepared, 0, 1, 99, True)
    job.do(job.coordinator.prepared, 1, 0, 99, True)
    assert job.coordinator.generation == 1


def test_rule_06_no_complete_member_left_restarts_from_the_checkpoint() -> None:
    job = Job(TWO).formed(step=3)
    job.want(*TWO, "c/0")
    job.hello(2)
    job.die(0)
    job.boundary(2, 0)
    job.die(1)
    assert job.last(Restart).attempt == job.coordinator.attempt == 2
    assert job.ended().keys() == {2, 3, 4}
    for member in (2, 3, 4):
        job.die(member)
    assert [(s.member, s.slot) for s in job.all(Start)[-3:]] == [
        (5, "c/0"),
        (6, "a/0"),
        (7, "b/0"),
    ]
    job.hello(5, 6, 7)
    commit = job.last(Commit)
    assert (commit.attempt, commit.members, commit.source) == (2, (6, 7, 5), None)
    assert commit.generation > 2


def test_rule_06_who_has_not_acknowledged_its_state_is_no_source() -> None:
    job = Job(["a"]).formed(step=3)
    job.want("a", "b")
    job.hello(1)
    job.train(5)
    job.switch(0)
    job.switch(1, received=False)
    job.die(0)
    job.boundary(1, 0)
    assert job.last(Restart).attempt == 2


def test_rule_07_an_incomplete_member_gets_the_state_of_another() -> None:
    job = Job(TWO).formed(step=3)
    for member in (0, 1):
        job.boundary(member, 3)
    job.followers[0].stepped(4)
    job.followers[1].incomplete()
    job.answers()
    assert job.last(Propose) == Propose((0, 1), 2, broken=True)
    job.boundary(0, 4)
    job.boundary(1, 3)
    commit = job.last(Commit)
    assert (commit.source, commit.receivers, commit.step) == (0, (1,), 4)


@pytest.mark.parametrize("slots", [["a"], ["a", "b"]], ids=["alone", "all of two"])
def test_rule_07_updates_that_fail_everywhere_end_the_job(slots: list[str]) -> None:
    job = Job(slots).formed(step=3)
    for member in job.members:
        job.boundary(member, 3)
    for member in job.members:
        job.followers[member].incomplete()
    job.answers()
    for member in job.members:
        job.boundary(member, 3)
    assert "optimizer.step failed on a" in job.last(Fail).reason
    assert not job.all(Restart)


def test_rule_07_who_is_whole_ends_nothing_and_a_mended_one_counts_again() -> None:
    """Member 1 has been mended when member 0 fails: 1 is its source then."""
    job = Job(TWO).formed(step=3)
    for failing, step in ((1, 3), (0, 4)):
        for member in (0, 1):
            job.boundary(member, step)
        job.followers[1 - failing].stepped(step + 1)
        job.followers[failing].incomplete()
        job.answers()
        job.boundary(1 - failing, step + 1)
        job.boundary(failing, step)
        job.switch(0, 1)
        assert job.last(Commit).source == 1 - failing
    assert not job.all(Fail)


def test_rule_07_a_member_that_fails_again_and_again_is_ended() -> None:
    """Nodes of its own: the other one is started anew, and trains on alone."""
    job = Job(TWO).formed(step=3)
    for step in (3, 4, 5):
        assert 1 not in job.ended()
        for member in (0, 1):
            job.boundary(member, step)
        job.followers[0].stepped(step + 1)
        job.followers[1].incomplete()
        job.answers()
        job.boundary(0, step + 1)
        if step < 5:
            job.boundary(1, step)
            job.switch(0, 1)
    assert 1 in job.ended()
    assert job.last(Commit).members == (0,)


def test_rule_07_a_source_that_dies_in_the_transfer_is_replaced() -> None:
    job = Job(["a", "b"]).formed(step=3)
    job.want("a", "b", "c")
    job.hello(2)
    job.switch(2, received=False)
    job.train(5)
    job.switch(0, 1)
    job.die(0)
    for member in (1, 2):
        job.boundary(member, 5)
    commit = job.last(Commit)
    assert (commit.members, commit.source, commit.receivers) == ((1, 2), 1, (2,))


def test_rule_09_ranks_keep_their_order_and_joiners_come_after_in_slot_order() -> None:
    job = Job(["c", "a", "b"]).formed()
    assert job.members == (0, 1, 2)
    job.want("e", "d", "b", "c")
    job.hello(4, 3)
    assert job.last(Commit).members == (0, 2, 3, 4)


def test_rule_10_a_failed_member_is_started_again_until_its_node_is_quarantined() -> None:
    job = Job(["a/0", "b/0", "b/1"]).formed()
    job.die(1)
    job.boundary(0, 0)
    job.boundary(2, 0)
    job.die(3)
    assert job.last(Start) == Start(4, "b/0")
    job.die(4)
    starts = len(job.all(Start))
    job.wait(599.0)
    assert len(job.all(Start)) == starts
    job.wait(1.0)
    assert job.last(Start).slot == "b/0"


def test_rule_10_a_burst_of_wishes_makes_one_change() -> None:
    job = Job(["a"]).formed()
    for wish in (["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]):
        job.want(*wish)
    job.hello(1)
    job.wait(1.0)
    job.hello(2, 3)
    assert [c.members for c in job.all(Commit)] == [(0,), (0, 1, 2, 3)]


def test_rule_10_a_change_does_not_wait_for_slow_starters_for_long() -> None:
    job = Job(["a"]).formed()
    job.want("a", "b", "c")
    job.hello(1)
    job.wait(5.0)
    assert job.last(Commit).members == (0, 1)


def test_rule_10_too_few_members_and_no_node_left_is_a_failure_in_words() -> None:
    job = Job(["a/0", "b/0"], minimum=2, quarantine=Quarantine(limit=1)).formed()
    job.die(1)
    assert "fewer than 2 members" in job.last(Fail).reason
    assert "b: 1 failures within 600 s" in job.last(Fail).reason
    assert 0 in job.ended()
    assert job.coordinator.over
    assert job.coordinator.next_deadline() is None


def test_rule_11_the_same_wish_again_changes_nothing() -> None:
    job = Job(TWO).formed()
    before = len(job.said)
    job.want(*TWO)
    assert len(job.said) == before
    assert (job.coordinator.slots, job.coordinator.generation) == (("a/0", "b/0"), 1)


def test_rule_12_the_attempt_and_the_numbers_of_a_former_supervisor_go_on() -> None:
    job = Job(TWO, attempt=3, generation=17, first_member=40)
    job.hello(40, 41)
    assert (job.last(Commit).attempt, job.last(Commit).generation) == (3, 18)


def test_rule_13_a_silent_survivor_is_ended_after_grace() -> None:
    job = Job(["a", "b", "c"]).formed(step=2)
    job.die(2)
    job.boundary(0, 2)
    job.wait(29.9)
    assert job.coordinator.generation == 1
    job.wait(0.2)
    assert list(job.ended()) == [1]
    assert job.members == (0,)


def test_rule_13_an_incumbent_that_does_not_answer_a_planned_change_is_ended() -> None:
    job = Job(["a", "b", "c"]).formed(step=2)
    job.held.add(1)
    job.want("a", "b")
    job.wait(30.0)
    assert list(job.ended()) == [1]
    assert job.last(Propose) == Propose((0, 2), 3, broken=True)


def test_rule_13_a_switch_to_which_members_do_not_come_is_given_up() -> None:
    job = Job(["a", "b", "c"]).formed(step=2)
    job.want("a", "b")
    assert job.last(Commit).switch == 4
    job.wait(30.0)
    assert job.last(Propose) == Propose((0, 1, 2), 3, broken=True)
    for member in (0, 2):
        job.boundary(member, 2)
    job.wait(30.0)
    assert list(job.ended()) == [1]
    assert job.last(Commit).members == (0,)


def test_rule_16_unlike_workers_fail_the_job_before_the_first_generation() -> None:
    job = Job(TWO)
    job.hello(0, fingerprint="one")
    job.hello(1, fingerprint="another")
    assert "b/0 is unlike a/0" in job.last(Fail).reason


def test_rule_16_an_unlike_joiner_is_ended_and_its_slot_not_tried_again() -> None:
    job = Job(["a"]).formed()
    job.want("a", "b")
    job.hello(1, fingerprint="another")
    assert "unlike" in job.ended()[1]
    job.die(1)
    job.wait(10_000.0)
    assert job.last(Start) == Start(1, "b")
    assert job.coordinator.generation == 1
    job.want("a", "b")
    assert job.last(Start) == Start(2, "b")


def test_a_lost_store_is_a_new_generation_with_a_new_store() -> None:
    job = Job(TWO).formed(step=2)
    job.do(job.coordinator.store_lost)
    assert job.last(Propose).broken
    for member in (0, 1):
        job.boundary(member, 2)
    assert (job.last(Commit).store, job.coordinator.store) == (1, 1)
    assert job.last(Commit).receivers == ()


def test_ready_joiners_are_taken_into_a_broken_generation() -> None:
    job = Job(TWO).formed(step=2)
    job.want(*TWO, "c/0", "d/0")
    job.hello(2)
    job.die(1)
    job.boundary(0, 2)
    commit = job.last(Commit)
    assert (commit.members, commit.receivers) == ((0, 2), (2,))


def test_a_broken_generation_does_not_wait_for_joiners() -> None:
    job = Job(TWO).formed(step=2)
    job.want(*TWO, "c/0", "d/0")
    job.held.add(2)
    job.hello(2)
    job.die(1)
    job.boundary(0, 2)
    assert job.last(Commit).members == (0,)
    assert job.last(Withdraw).to == (2,)


def test_too_few_survivors_wait_for_joiners() -> None:
    job = Job(TWO, minimum=2).formed(step=2)
    job.die(1)
    job.boundary(0, 2)
    assert job.coordinator.generation == 1
    job.hello(2)
    assert job.last(Commit).members == (0, 2)


def test_a_job_that_moves_altogether_keeps_a_member_until_the_state_has_come() -> None:
    job = Job(["a"]).formed(step=3)
    job.want("b")
    job.hello(1)
    assert job.last(Commit).members == (0, 1)
    job.train(5)
    job.switch(0)
    assert len(job.all(Commit)) == 2
    job.switch(1)
    assert (job.last(Commit).members, job.last(Commit).to) == ((1,), (1, 0))


def test_leavers_go_by_themselves_and_are_ended_if_they_do_not() -> None:
    job = Job(TWO).formed(step=3)
    job.want("a/0")
    job.train(5)
    assert job.boundary(1, 5) == "leave"
    job.switch(0)
    job.wait(29.0)
    assert not job.all(End)
    job.wait(1.0)
    assert job.last(End) == End(1, "it did not leave", politely=True)
    job.wait(30.0)
    assert job.last(End).politely is False


def test_a_leaver_that_leaves_first_breaks_nothing() -> None:
    job = Job(TWO).formed(step=3)
    job.want("a/0")
    job.train(5)
    job.die(1, failed=False)
    assert not any(p.broken for p in job.all(Propose))


def test_a_leaver_that_dies_before_the_switch_breaks_the_generation() -> None:
    job = Job(TWO).formed(step=3)
    job.want("a/0")
    job.die(1)
    assert job.last(Propose) == Propose((0,), 3, broken=True)
    job.boundary(0, 3)
    assert (job.last(Commit).step, job.last(Commit).members) == (3, (0,))


def test_a_leaver_that_has_left_holds_nothing_up() -> None:
    job = Job(TWO).formed(step=3)
    job.want("a/0")
    job.train(5)
    assert job.boundary(1, 5) == "leave"
    job.do(job.coordinator.store_lost)
    assert job.last(Propose) == Propose((0,), 3, broken=True)
    job.boundary(0, 5)
    assert job.last(Commit).members == (0,)


def test_a_leaver_that_has_left_holds_no_broken_generation_up() -> None:
    job = Job(TWO).formed(step=3)
    job.want("a/0")
    job.train(5)
    job.do(job.coordinator.store_lost)
    assert job.last(Propose) == Propose((0, 1), 3, broken=True)
    job.do(job.coordinator.prepared, 0, 2, 5, True)  # Both were on their way already.
    job.do(job.coordinator.prepared, 1, 2, 5, True)
    job.boundary(0, 5)
    assert job.last(Commit).to == (0,)


def test_a_leavers_state_is_there_when_the_last_member_dies() -> None:
    job = Job(["a", "b"]).formed(step=3)
    job.want("a", "c")
    job.hello(2)
    job.train(5)
    job.switch(0)
    job.die(0)
    assert job.last(Propose) == Propose((2, 1), 3, broken=True)
    for member in (1, 2):
        job.boundary(member, 5 if member == 1 else 0)
    commit = job.last(Commit)
    assert (commit.source, commit.members, commit.receivers) == (1, (2, 1), (2,))


def test_a_slot_has_one_process_at_a_time() -> None:
    job = Job(TWO).formed(step=3)
    job.want("a/0")
    job.train(5)
    job.switch(0)
    job.want(*TWO)
    assert len(job.all(Start)) == 2
    job.die(1, failed=False)
    assert job.last(Start) == Start(2, "b/0")


def test_after_one_has_finished_nothing_is_proposed_or_started() -> None:
    job = Job(TWO).formed(step=3)
    job.want(*TWO, "c/0")
    job.do(job.coordinator.finished, 0)
    assert job.ended() == {2: "the job has finished"}
    before = len(job.said)
    job.die(2)
    job.want("a/0")
    job.do(job.coordinator.finished, 1)
    job.die(0, failed=False)
    job.die(1, failed=True)
    assert len(job.said) == before
    assert job.coordinator.over


def test_the_unfinished_re_form_among_themselves() -> None:
    job = Job(["a", "b", "c"]).formed(step=3)
    job.do(job.coordinator.finished, 0)
    job.die(1)
    assert job.last(Propose) == Propose((2,), 2, broken=True)
    job.boundary(2, 3)
    assert job.last(Commit).members == (2,)
    assert not job.coordinator.over
    job.do(job.coordinator.finished, 2)
    assert job.coordinator.over


def test_incomplete_ones_are_ended_when_another_has_finished() -> None:
    job = Job(TWO).formed(step=3)
    job.do(job.coordinator.finished, 0)
    job.followers[1].incomplete()
    job.answers()
    job.boundary(1, 3)
    assert job.ended() == {1: "the job has finished without it"}
    assert job.coordinator.over
    assert not job.all(Restart)


def test_joiners_that_no_member_will_come_to_meet_are_ended() -> None:
    job = Job(["a"]).formed(step=3)
    job.want("a", "b")
    job.hello(1)
    job.switch(1, received=False)
    job.do(job.coordinator.finished, 0)
    assert job.ended() == {1: "the job has finished"}
    assert job.coordinator.over


@pytest.mark.parametrize("slots", [[], ["a"], ["a", "a"]])
def test_wishes_that_mean_nothing_are_refused(slots: list[str]) -> None:
    job = Job(TWO, minimum=2).formed()
    with pytest.raises(ValueError):
        job.want(*slots)
    with pytest.raises(ValueError):
        Coordinator(slots=slots, minimum=2)
    assert job.coordinator.slots == ("a/0", "b/0")
