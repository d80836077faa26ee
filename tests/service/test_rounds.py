"""Measured rounds in the store: kept once, bounded, and taken over from an older schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.service import _round_rows
from staves.service._rows import Round
from staves.service._spec import JobSpec
from staves.service._states import Ended, Grant, Stop
from staves.service._store import Store

SPEC = JobSpec("digits", "python train.py", Path("/work"), Path("/usr/bin/python3"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as opened:
        yield opened


def submit(store: Store, owner: str = "ann") -> str:
    return store.submit(SPEC, "abc", owner, now=1.0)


def stretch(*devices: str, batch: int = 32, seconds: float | None = 0.5) -> dict[str, Any]:
    share, rest = divmod(batch, len(devices))
    batches = [share + (n < rest) for n in range(len(devices))]
    return {
        "devices": list(devices),
        "since": 1.0,
        "until": None,
        "local_batches": batches,
        "step_seconds": seconds,
    }


def rounds_of(store: Store, job: str) -> tuple[Round, ...]:
    found = store.measured([job])
    return found[0].rounds if found else ()


def test_a_stretch_with_a_step_time_is_a_round(store: Store) -> None:
    job = submit(store)
    alone, unmeasured = stretch("a/rtx-3080-0"), stretch("a/rtx-3080-0", "b/t4-0", seconds=None)
    store.observe(job, attempt=1, stretches=[alone, unmeasured])
    first = Round(1, 0, {"rtx-3080": 1}, 1, 32, 64.0)
    assert rounds_of(store, job) == (first,)
    mixed = stretch("a/rtx-3080-0", "a/rtx-3080-1", "b/t4-0", batch=48, seconds=0.25)
    store.observe(job, attempt=1, stretches=[alone, unmeasured, mixed])
    second = Round(1, 2, {"rtx-3080": 2, "t4": 1}, 2, 48, 192.0)
    assert rounds_of(store, job) == (first, second)
    store.observe(job, attempt=1, stretches=[alone, unmeasured, mixed | {"step_seconds": 0.5}])
    assert rounds_of(store, job)[1].throughput == 96.0
    store.observe(job, attempt=2, stretches=[mixed])
    assert [(one.attempt, one.number) for one in rounds_of(store, job)] == [(1, 0), (1, 2), (2, 0)]


def test_a_job_that_told_no_figures_has_no_round(store: Store) -> None:
    job = submit(store)
    plain = {"devices": ["a/t4-0"], "since": 1.0}
    broken = stretch("a/t4-0", seconds=0.0), stretch("a/t4-0", seconds=float("nan"))
    store.observe(job, attempt=1, stretches=[plain, *broken, stretch("a/t4-0", batch=0)])
    assert store.measured() == []
    assert len(store.spans(job)) == 4


stretches = st.lists(
    st.tuples(st.integers(1, 3), st.one_of(st.none(), st.floats(1e-3, 10.0))), min_size=1
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for many examples, each of which has a job of its own."""
    with Store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@settings(max_examples=25)  # each writes to the disk again and again
@given(stretches, st.data())
def test_however_often_it_is_told_each_round_stands_once(
    shared: Store,
    told: list[tuple[int, float | None]],
    data: st.DataObject,
) -> None:
    whole = [stretch(*(f"a/t4-{n}" for n in range(k)), seconds=s) for k, s in told]
    job, end = submit(shared), 0
    while end < len(whole):  # the engine tells all so far, again and again
        end = data.draw(st.integers(max(1, end), len(whole)))
        shared.observe(job, attempt=1, stretches=whole[:end])
    expected = [(n, {"t4": k}, 32 / s) for n, (k, s) in enumerate(told) if s is not None]
    found = [(one.number, one.devices, one.throughput) for one in rounds_of(shared, job)]
    assert found == expected


def test_only_the_newest_jobs_that_have_ended_are_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_round_rows, "KEPT", 2)
    open_one = submit(store)
    store.apply(open_one, Grant(("a/t4-0",)), now=2.0)
    store.observe(open_one, attempt=1, stretches=[stretch("a/t4-0")])
    ended = []
    for _ in range(4):
        job = submit(store)
        store.apply(job, Grant(("a/t4-1",)), now=2.0)
        store.observe(job, attempt=1, stretches=[stretch("a/t4-1")])
        store.apply(job, Ended("finished"), now=3.0)
        ended.append(job)
    assert store.past() == tuple(ended[1:])  # the last one was open when it was measured
    newest = submit(store)
    store.observe(newest, attempt=1, stretches=[stretch("a/t4-1")])
    assert store.past() == tuple(ended[2:])
    assert [one.id for one in store.measured()] == [open_one, *ended[2:], newest]
    store.apply(newest, Stop(), now=4.0)
    assert store.past() == (*ended[2:], newest)


@pytest.mark.parametrize(
    "damage",
    [
        """devices = '{"v100":'""",
        "devices = '[1]'",
        "devices = '{}'",
        """devices = '{"t4": "two"}'""",
        "throughput = 'nan'",
        "throughput = -5",
        "throughput = 9e999",
        "nodes = 99",
        "nodes = 'x'",
        "batch = 0",
    ],
)
def test_a_damaged_round_is_left_out_and_the_others_are_not(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    sound, broken = submit(store), submit(store)
    told = [stretch("a/t4-0"), stretch("a/t4-0", "b/t4-0", seconds=0.25)]
    store.observe(sound, attempt=1, stretches=told)
    store.observe(broken, attempt=1, stretches=told)
    with sqlite3.connect(tmp_path / "staves.db") as connection:
        connection.execute(f"UPDATE rounds SET {damage} WHERE job = {broken} AND number = 1")
    connection.close()
    assert [(one.id, len(one.rounds)) for one in store.measured()] == [(sound, 2), (broken, 1)]
    assert "is damaged, and left out" in caplog.text
    with sqlite3.connect(tmp_path / "staves.db") as connection:
        connection.execute(f"UPDATE rounds SET {damage} WHERE job = {broken}")
    connection.close()
    assert [one.id for one in store.measured()] == [sound]


def test_what_was_measured_is_told_by_owner(store: Store) -> None:
    mine, other = submit(store), submit(store, "bob")
    for job in (mine, other):
        store.observe(job, attempt=1, knowledge={"k": job}, stretches=[stretch("a/t4-0")])
    (found,) = store.measured(owner="bob")
    assert (found.id, found.owner, found.knowledge) == (other, "bob", {"k": other})
    assert store.measured([]) == []


def test_a_store_of_the_first_schema_keeps_all_and_has_its_rounds(
    store: Store, tmp_path: Path
) -> None:
    jobs = [submit(store), submit(store, "bob"), submit(store)]
    store.observe(jobs[0], progress={"loss": 0.5}, knowledge={"lines": {}})
    told = [stretch("a/t4-0"), stretch("a/t4-0", "b/v100-0", seconds=0.25)]
    store.observe(jobs[0], attempt=1, stretches=told)
    store.observe(jobs[1], attempt=2, stretches=[stretch("b/v100-0", seconds=None)])
    store.observe(jobs[1], attempt=3, stretches=[stretch("b/v100-0", seconds=0.125)])

    def everything() -> list[object]:
        spans, stories = store.spans(), [store.story(job) for job in jobs]
        return [store.jobs(), spans, stories, store.measured()]

    before = everything()
    store.close()
    connection = sqlite3.connect(tmp_path / "staves.db")  # as the first schema left it
    connection.execute("DROP TABLE rounds")
    connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.commit()
    connection.close()
    store = Store(tmp_path)
    try:
        assert everything() == before
        assert [one.id for one in store.measured()] == jobs[:2]
    finally:
        store.close()
