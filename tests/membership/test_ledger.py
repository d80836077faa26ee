from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.membership import Ledger, attempt_row, finished_row, prove, replay, stands

Row = dict[str, Any]


def generation(number: int, step: int = 0, *, attempt: int = 1, ranks: int = 2) -> Row:
    members = list(range(ranks))
    row = {"kind": "generation", "attempt": attempt, "generation": number}
    return {**row, "members": members, "step": step}


def step(number: int, start: int, *, epoch: int = 0, g: int = 1, attempt: int = 1) -> Row:
    """A step of 4 samples by two ranks."""
    row = {"kind": "step", "attempt": attempt, "generation": g, "step": number}
    return {**row, "epoch": epoch, "start": start, "local_batches": [3, 1]}


WHOLE = [generation(1), step(0, 0), step(1, 4), step(2, 0, epoch=1), step(3, 4, epoch=1)]


def test_rule_19_each_sample_once_an_epoch_is_proved() -> None:
    proof = prove(WHOLE, 8)
    assert proof.ok
    assert proof.steps == 4
    assert [(e.epoch, e.samples, e.unfinished) for e in proof.epochs] == [
        (0, 8, False),
        (1, 8, False),
    ]


def test_rule_19_lines_of_json_prove_the_same() -> None:
    assert prove([json.dumps(row) for row in WHOLE], 8) == prove(WHOLE, 8)


def test_rule_19_a_cut_last_epoch_is_unfinished_and_no_fault() -> None:
    proof = prove(WHOLE[:-1], 8)
    assert proof.ok
    assert (proof.epochs[-1].unfinished, proof.epochs[-1].samples) == (True, 4)


def test_rule_19_a_pass_over_a_stream_has_as_many_as_were_trained() -> None:
    rows = [generation(1), step(0, 0), step(1, 4), step(2, 0, epoch=1), step(3, 0, epoch=2)]
    proof = prove(rows, None)
    assert proof.ok
    assert [(e.samples, e.unfinished) for e in proof.epochs] == [(8, False), (4, False), (4, False)]
    rows[2] = step(1, 5)
    assert prove(rows, None).problems == ("line 3: step 1 of epoch 0 leaves out samples [4, 5)",)


def test_rule_19_a_gap_is_named() -> None:
    proof = prove([generation(1), step(0, 0), step(1, 6)], 10)
    assert not proof.ok
    assert proof.epochs[0].gaps == ((4, 6),)
    assert proof.problems == ("line 3: step 1 of epoch 0 leaves out samples [4, 6)",)


def test_rule_19_an_overlap_is_named() -> None:
    proof = prove([generation(1), step(0, 0), step(1, 2)], 10)
    assert proof.epochs[0].overlaps == ((2, 4),)
    assert proof.epochs[0].samples == 6
    assert proof.problems == ("line 3: step 1 of epoch 0 takes samples [2, 4) again",)


def test_rule_19_an_epoch_that_ends_early_is_a_gap_unless_drop_last() -> None:
    rows = [generation(1), step(0, 0), step(1, 0, epoch=1)]
    assert prove(rows, 6).epochs[0].gaps == ((4, 6),)
    assert prove(rows, 6, drop_last=True).ok
    assert not prove(rows, 8, drop_last=True).ok


def test_rule_19_a_generation_voids_what_a_lost_member_did_beyond_it() -> None:
    rows = [generation(1), step(0, 0), step(1, 4), generation(2, 1), step(1, 4, g=2)]
    proof = prove(rows, 8)
    assert proof.ok
    assert (proof.steps, proof.voided) == (2, 1)


@given(st.permutations([*WHOLE, generation(2, 3), step(3, 4, epoch=1, g=2)]))
def test_rule_19_the_order_of_the_lines_does_not_matter(rows: list[Row]) -> None:
    proof = prove(rows, 8)
    assert proof.ok
    assert (proof.steps, proof.voided) == (4, 1)


def test_rule_19_an_attempt_rolls_back() -> None:
    again = [attempt_row(2, 1), generation(5, 0, attempt=2), step(1, 4, g=5, attempt=2)]
    proof = prove([generation(1), step(0, 0), step(1, 4), step(2, 0, epoch=1), *again], 8)
    assert proof.ok
    assert (proof.steps, proof.voided) == (2, 2)


def test_rule_19_what_a_finished_member_trained_stands() -> None:
    rows = [*WHOLE, finished_row(1, 1, 4), generation(2, 3)]
    assert prove(rows, 8).steps == 4
    rows += [step(3, 4, epoch=1, g=2), finished_row(1, 2, 4)]
    proof = prove(rows, 8)
    assert proof.ok
    assert (proof.steps, proof.voided) == (4, 1)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("{", "line 6: not JSON"),
        ("3", "line 6: not an object"),
        ({"kind": "note"}, "line 6: unknown kind 'note'"),
        ({**step(4, 0), "start": -1}, "line 6: start is -1, not a whole number"),
        ({**step(4, 0), "start": True}, "line 6: start is True, not a whole number"),
        ({**step(4, 0), "local_batches": []}, "line 6: local_batches is []"),
        ({**step(4, 0), "generation": 9}, "line 6: generation 9 was never committed"),
        ({**step(3, 5), "epoch": 1}, "line 6: contradicts line 5"),
        ({**step(4, 0, epoch=2), "local_batches": [4]}, "line 6: its local batches do not fit"),
        (step(5, 0, epoch=2), "step 4 is missing"),
        (step(4, 4, epoch=3), "epoch 2 is missing"),
        (step(4, 0), "line 6: step 4 goes back to epoch 0 from epoch 1"),
        (attempt_row(2, 5), None),
        (generation(7, 9, attempt=2), "attempt 2 does not say from which step it goes on"),
    ],
)
def test_rule_19_bad_rows_are_named_with_their_line(row: Any, problem: str | None) -> None:
    proof = prove([*WHOLE, row], 8)
    if problem is None:
        assert proof.ok
    else:
        assert any(p.startswith(problem) for p in proof.problems), proof.problems
        assert not any("\n" in p for p in proof.problems)


def test_rule_19_samples_beyond_the_data_set_are_named() -> None:
    assert prove(WHOLE, 7).problems[0].endswith("takes samples up to 8 of 7")


def test_the_first_row_of_a_step_is_kept() -> None:
    ledger = Ledger()
    assert ledger.add(step(0, 0))
    assert not ledger.add({**step(0, 0), "start": 1})
    assert ledger.add(step(0, 0, g=2))
    assert [row["start"] for row in ledger.rows] == [0, 0]
    with pytest.raises(ValueError, match="unknown kind"):
        ledger.add({"kind": "note"})


def test_rule_15_a_checkpoint_of_a_voided_step_does_not_stand() -> None:
    rows = [generation(1), step(0, 0), step(1, 4), generation(2, 1)]
    assert stands(rows, 1, 1, 1)
    assert not stands(rows, 1, 1, 2)
    assert not stands(rows, 1, 2, 2)
    assert stands(rows, 1, 2, 1)
    assert not stands([*rows, attempt_row(2, 0)], 1, 2, 1)
    assert stands(rows, 1, 9, 0)


def test_an_empty_ledger_proves_nothing_and_hurts_nobody() -> None:
    assert prove([], 8).ok
    assert replay([]).steps == ()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.data())
def test_rule_19_one_lost_or_doubled_step_is_always_found(
    batches: list[int], data: st.DataObject
) -> None:
    rows, start = [generation(1, ranks=1)], 0
    for number, batch in enumerate(batches):
        rows.append({**step(number, start), "local_batches": [batch]})
        start += batch
    assert prove(rows, start).ok
    victim = data.draw(st.integers(1, len(batches)))
    lost = rows[:victim] + rows[victim + 1 :]
    proof = prove(lost, start)
    if victim < len(batches):
        assert not proof.ok
    else:
        assert proof.ok == (not proof.epochs or proof.epochs[-1].unfinished)
    doubled = [*rows, {**rows[victim], "step": len(batches)}]
    assert not prove(doubled, start).ok
