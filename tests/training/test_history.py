"""The history: bounded, every step counted, and no split told another one's times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import staves
from staves.training._adaptation import Adaptation
from staves.training._figures import Figures
from staves.training._history import History, Row, Setting
from staves.training._planner import Plan
from staves.training._timing import StepRecord
from tests.training.launch import command

SETTINGS = [Setting(("a", "b"), (6 + each, 6 - each), "optimal", 0.5, 0.7) for each in range(3)]

steps = st.lists(
    st.tuples(st.sampled_from(SETTINGS), st.none() | st.floats(0.1, 10.0)), max_size=200
)


def history_of(drawn: Sequence[tuple[Setting, float | None]], most: int) -> History:
    history = History(most)
    for step, (setting, seconds) in enumerate(drawn):
        measured = seconds is not None
        history.add(Row(step, 1, setting, int(measured), seconds))
    return history


@given(steps, st.integers(2, 9))
def test_rows_are_few_and_cover_every_step_once(
    drawn: list[tuple[Setting, float | None]], most: int
) -> None:
    rows = history_of(drawn, most).rows
    assert len(rows) <= most
    assert sum(row.steps for row in rows) == len(drawn)
    ends = [row.step for row in rows]
    assert all(
        end == row.steps - 1 + before
        for end, row, before in zip(ends, rows, [0, *(end + 1 for end in ends)], strict=False)
    )


@given(st.lists(st.none() | st.floats(0.1, 10.0), min_size=1, max_size=200), st.integers(2, 9))
def test_the_mean_of_one_split_is_kept_whatever_is_joined(
    seconds: list[float | None], most: int
) -> None:
    rows = history_of([(SETTINGS[0], each) for each in seconds], most).rows
    known = [each for each in seconds if each is not None]
    assert sum(row.measured for row in rows) == len(known)
    total = sum(row.step_seconds * row.measured for row in rows if row.step_seconds is not None)
    assert abs(total - sum(known)) <= 1e-9 * max(1.0, sum(known))


@given(steps, st.integers(2, 9))
def test_times_stand_beside_the_split_they_were_measured_with(
    drawn: list[tuple[Setting, float | None]], most: int
) -> None:
    # Each split takes a time of its own, so a mean over two of them is no split's time.
    own = dict(zip(SETTINGS, (1.0, 2.0, 4.0), strict=True))
    told = [(setting, own[setting]) for setting, _ in drawn]
    for row in history_of(told, most).rows:
        assert row.step_seconds == own[row.setting]


@given(steps, st.integers(2, 9), st.integers(0, 200))
def test_it_goes_on_after_a_checkpoint_as_if_there_had_been_none(
    drawn: list[tuple[Setting, float | None]], most: int, cut: int
) -> None:
    whole = history_of(drawn, most)
    saved = json.loads(json.dumps(history_of(drawn[:cut], most).to_document()))
    resumed = History.from_document(saved, most)
    for step, (setting, seconds) in list(enumerate(drawn))[cut:]:
        resumed.add(Row(step, 1, setting, int(seconds is not None), seconds))
    assert resumed.rows == whole.rows


def test_a_step_that_is_trained_again_replaces_what_it_was() -> None:
    history = history_of([(SETTINGS[0], 1.0)] * 5, 9)
    history.add(Row(3, 1, SETTINGS[1], 1, 2.0))
    assert [(row.step, row.step_seconds) for row in history.rows] == [
        (0, 1.0), (1, 1.0), (2, 1.0), (3, 2.0),
    ]  # fmt: skip


def test_figures_carry_the_history_to_joiners() -> None:
    figures, joiner = Figures(None), Figures(None)
    figures.adaptation = Adaptation(staves.Adaptive(12))
    figures.begin_generation(["a", "b"])
    plan = Plan(
        1,
        "optimal",
        (8, 4),
        predicted_seconds=0.5,
        even_seconds=0.7,
        idle_share=(0.0, 0.2),
    )
    for step in range(3):
        record = StepRecord(step, 1, 8, 0.0, 0.0, (), (), 0.5)
        figures.measured(record, plan, settled=step > 0)
    assert [row.measured for row in figures.history.rows] == [0, 1, 1]
    joiner.load_document(json.loads(json.dumps(figures.to_document())))
    assert joiner.history.rows == figures.history.rows
    (setting,) = {row.setting for row in joiner.history.rows}
    assert setting == Setting(("a", "b"), (8, 4), "optimal", 0.5, 0.7, (0.0, 0.2))
    assert joiner.history.rows[-1].goodput == 24.0


SCRIPT = """
import json, sys, torch, staves
run = staves.init(batch_size=8, checkpoint="ckpt")
model = torch.nn.Linear(2, 1)
model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
batches = run.loader(torch.utils.data.TensorDataset(torch.randn(64, 2)))
for epoch in run.epochs(int(sys.argv[1])):
    for (inputs,) in batches:
        run.backward(model(inputs).square().mean())
        optimizer.step()
        optimizer.zero_grad()
print(json.dumps(run.report()["history"]))
"""


def test_a_resumed_run_has_the_history_of_all_its_attempts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    covered = []
    for epochs in (2, 4):
        done = command([script, epochs], tmp_path / "home", cwd=tmp_path)
        assert done.status == 0, done.stderr
        covered.append([row["step"] for row in json.loads(done.stdout.splitlines()[-1])["rows"]])
    first, second = covered
    assert second[: len(first)] == first
    assert second[-1] == 31
