from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError, StavesError
from staves.service._machine import advance
from staves.service._spec import JobSpec
from staves.service._states import (
    Ended,
    Event,
    Grant,
    Hello,
    IllegalEvent,
    Lost,
    Measured,
    Pause,
    Preempt,
    Record,
    Resume,
    Shutdown,
    Stop,
)
from staves.service._store import Store
from staves.service._tables import metadata

SPEC = JobSpec("digits", "python train.py", Path("/work"), Path("/usr/bin/python3"), retries=2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as opened:
        yield opened


def submit(store: Store, name: str = "digits", **options: Any) -> str:
    return store.submit(replace(SPEC, name=name), "abc", "ann", now=1.0, **options)


def test_a_job_comes_back_as_it_was_submitted(store: Store, tmp_path: Path) -> None:
    spec = replace(SPEC, passed_env={"TOKEN": "s3cret"}, types=("t4",))
    number = store.submit(spec, "abc", "ann", now=5.5)
    assert number == "1"
    job = store.job(number)
    assert (job.id, job.spec, job.snapshot, job.owner) == ("1", spec, "abc", "ann")
    assert job.record == Record("1", "digits", retries=2)
    assert (job.submitted, job.started, job.finished) == (5.5, None, None)
    assert (dict(job.progress), job.knowledge, job.summary) == ({}, None, None)
    store.close()
    with Store(tmp_path) as again:
        assert again.job(number) == job


def test_the_life_of_a_job_is_told(store: Store) -> None:
    job = submit(store)
    store.apply(job, Grant(("a", "b")), now=2.0)
    store.apply(job, Hello(), Hello(), now=3.0)
    record = store.apply(job, Ended("finished"), now=4.0)
    assert record == store.job(job).record
    assert (store.job(job).started, store.job(job).finished) == (2.0, 4.0)
    told = [
        (line.time, line.event, line.before, line.after, line.text) for line in store.story(job)
    ]
    assert told == [
        (1.0, "submit", "queued", "queued", ""),
        (2.0, "grant", "queued", "running", "a, b"),
        (3.0, "hello", "running", "probing", ""),
        (4.0, "ended", "probing", "finished", ""),
    ]


def test_nobody_else_may_read_it(store: Store, tmp_path: Path) -> None:
    submit(store)
    for path in tmp_path.glob("staves.db*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_what_scripts_write_stays_on_one_line(store: Store) -> None:
    job = submit(store)
    store.apply(job, Grant(("a",)), Ended("failed", "bad\nbytes \udc80", 1), now=2.0)
    assert store.story(job)[-1].text == "bad\\nbytes \\udc80"


def test_a_refused_event_changes_nothing(store: Store) -> None:
    job = submit(store)
    before = store.job(job)
    with pytest.raises(IllegalEvent, match="it cannot be resumed"):
        store.apply(job, Pause(), Resume(), Resume(), now=2.0)
    assert store.job(job) == before
    assert len(store.story(job)) == 1


def test_the_same_key_is_the_same_job(store: Store) -> None:
    first = submit(store, key="k")
    assert submit(store, key="k") == first
    store.respecify(first, replace(SPEC, scaled=2), "2 devices", now=2.0)
    assert submit(store, key="k") == first, "also when it was scaled since"
    assert submit(store) != first
    assert store.submit(SPEC, "abc", "bob", now=1.0, key="k") != first, "of somebody else"
    with pytest.raises(InputError, match="was used for another job, 1"):
        submit(store, "other", key="k")
    assert len(store.jobs()) == 3
    for owner, key in (("o" * 256, None), ("o", "k" * 256)):
        with pytest.raises(InputError, match="256 characters"):
            store.submit(SPEC, "abc", owner, now=1.0, key=key)


def test_jobs_are_found_by_id_and_by_a_name_that_only_one_has(store: Store) -> None:
    first, second, other = submit(store), submit(store), submit(store, "other")
    assert store.find(first).id == first
    assert store.find("other").id == other
    with pytest.raises(InputError, match="2 jobs are named digits") as several:
        store.find("digits")
    assert several.value.hint == "newest ids: 1, 2"
    store.apply(first, Stop(), now=2.0)
    assert store.find("digits").id == second
    store.apply(second, Stop(), now=2.0)
    assert store.find("digits").id == second, "the newest of those that have ended"
    for unknown in ("99", "\udc80", "nothing", "", "9" * 400, "²", "1; drop table jobs"):
        with pytest.raises(InputError, match="no such job"):
            store.find(unknown)
        with pytest.raises(InputError, match="no such job"):
            store.job(unknown)
        with pytest.raises(InputError, match="no such job"):
            store.apply(unknown, Stop(), now=2.0)
        with pytest.raises(InputError, match="no such job"):
            store.observe(unknown, progress={})
        assert store.story(unknown) == []
    with pytest.raises(InputError, match="no such job"):
        store.find(first, owner="bob")


def test_jobs_are_listed_in_order_and_in_parts(store: Store) -> None:
    numbers = [submit(store) for _ in range(5)]
    store.apply(numbers[1], Stop(), now=2.0)
    ids = [job.id for job in store.jobs()]
    assert ids == numbers
    assert [job.id for job in store.jobs(limit=2)] == numbers[3:]
    assert [job.id for job in store.jobs(limit=2, before=numbers[3])] == numbers[1:3]
    assert [job.id for job in store.jobs(states=["cancelled"])] == [numbers[1]]
    assert store.jobs(owner="bob") == []


def test_what_the_engine_tells_is_kept_as_json_knows_it(store: Store) -> None:
    job = submit(store)
    store.observe(job, progress={"loss": math.nan, "split": (1, 2)}, summary={"steps": 3})
    store.observe(job, knowledge={"lines": {}})
    kept = store.job(job)
    assert dict(kept.progress) == {"loss": None, "split": [1, 2]}
    assert (kept.knowledge, kept.summary) == ({"lines": {}}, {"steps": 3})


def test_stretches_grow_and_end(store: Store) -> None:
    job, other = submit(store), submit(store)
    first: dict[str, Any] = {"since": 1.0, "until": None, "devices": ("a",), "step_seconds": 0.5}
    store.observe(job, attempt=1, stretches=[first])
    over = {**first, "until": 2.0}
    second = {"since": 2.0, "devices": ("a", "b")}
    store.observe(job, attempt=1, stretches=[over, second])
    store.observe(job, attempt=1, stretches=[over, second])
    store.observe(other, attempt=1, stretches=[{**first, "since": 0.0, "until": 0.5}])
    own = store.spans(job)
    assert [(s.number, s.since, s.until, s.devices) for s in own] == [
        (0, 1.0, 2.0, ("a",)),
        (1, 2.0, None, ("a", "b")),
    ]
    assert own[0].figures == {"step_seconds": 0.5}
    store.observe(job, attempt=2, stretches=[first])
    assert len(store.spans(job)) == 3
    assert {span.job for span in store.spans(since=0.6)} == {job}
    assert {span.job for span in store.spans()} == {job, other}


def test_only_the_last_decisions_are_kept(store: Store) -> None:
    for number in range(1, 6):
        assert store.record_decision({"value": number}, now=float(number), keep=3) == number
    assert [d.document["value"] for d in store.decisions(10)] == [5, 4, 3]
    assert [d.id for d in store.decisions()] == [5]


def test_nodes_settings_and_tokens(store: Store, tmp_path: Path) -> None:
    for drained in (True, True, False, True):
        store.drain("node-1", drained=drained)
        assert store.drained() == ({"node-1"} if drained else set())
    assert store.setting("policy") is None
    store.set("policy", {"name": "heet"})
    store.set("policy", {"name": "sia"})
    assert store.setting("policy") == {"name": "sia"}

    token = store.add_token("ann", "user", now=3.0)
    assert len({token, *(store.add_token("bob", "admin", now=4.0) for _ in range(3))}) == 4
    known = store.token(token)
    assert known is not None
    assert (known.user, known.role, known.created) == ("ann", "user", 3.0)
    assert store.token(token + "x") is None
    assert token.encode() not in b"".join(p.read_bytes() for p in tmp_path.glob("staves.db*"))
    store.remove_token(known.id)
    assert store.token(token) is None
    assert [t.user for t in store.tokens()] == ["bob"] * 3
    with pytest.raises(InputError, match="no such token"):
        store.remove_token(known.id)
    with pytest.raises(InputError, match="did you mean 'admin'"):
        store.add_token("eve", "admn", now=1.0)  # type: ignore[arg-type]


def test_one_process_writes_and_others_read(store: Store, tmp_path: Path) -> None:
    job = submit(store)
    with pytest.raises(InputError, match="another process has this store open"):
        Store(tmp_path)
    with Store(tmp_path, reader=True) as reader:
        assert reader.job(job) == store.job(job)
        with pytest.raises(StavesError, match="readonly"):
            submit(reader)
        store.apply(job, Stop(), now=2.0)
        assert reader.job(job).record.state == "cancelled"
    store.close()
    with Store(tmp_path) as again:
        assert submit(again) == "2"


def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such database"):
        Store(tmp_path / "none", reader=True)
    assert list(tmp_path.iterdir()) == []


def test_the_migrations_make_the_tables_that_the_code_uses(store: Store) -> None:
    with store._database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_commits_are_on_disk_and_references_hold(store: Store) -> None:
    with store._database.writing() as connection:
        ask = connection.exec_driver_sql
        assert ask("PRAGMA journal_mode").scalar() == "wal"
        assert ask("PRAGMA synchronous").scalar() == 2
        assert ask("PRAGMA foreign_keys").scalar() == 1
        assert ask("PRAGMA busy_timeout").scalar() == 30_000
    with pytest.raises(StavesError, match="FOREIGN KEY"), store._database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO requests VALUES ('o', 'k', 77)")


def test_a_database_of_a_newer_version_is_left_alone(store: Store, tmp_path: Path) -> None:
    store.close()
    with sqlite3.connect(tmp_path / "staves.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    for reader in (False, True):
        with pytest.raises(StavesError, match="was written by a newer version"):
            Store(tmp_path, reader=reader)


@pytest.mark.parametrize("damage", ["start", "middle", "text"])
def test_a_damaged_database_is_said_to_be(store: Store, tmp_path: Path, damage: str) -> None:
    for _ in range(50):
        submit(store)
    store.close()
    path = tmp_path / "staves.db"
    content = bytearray(path.read_bytes())
    if damage == "text":
        content = bytearray(b"these are no tables\n" * 500)
    else:
        start = 0 if damage == "start" else len(content) // 2
        content[start : start + 8192] = b"\xff" * 8192
    path.write_bytes(content)
    with pytest.raises(StavesError, match="is damaged") as caught:
        Store(tmp_path)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    with pytest.raises(StavesError, match="is damaged"):  # and the lock is free again
        Store(tmp_path)


def test_a_full_disk_leaves_nothing_half_written(store: Store) -> None:
    job = submit(store)
    with store._database.writing() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    acknowledged: list[str] = []

    def fill() -> None:
        for number in range(1000):
            acknowledged.append(submit(store, key=f"k{number}"))

    with pytest.raises(StavesError, match="the disk is full: nothing was written") as caught:
        fill()
    assert caught.value.hint == "free some space"
    with store._database.reading() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    assert [found.id for found in store.jobs()] == [job, *acknowledged]
    assert all(len(store.story(number)) == 1 for number in acknowledged)
    assert submit(store) == str(len(acknowledged) + 2)


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x", "postgresql+nodriver://h/d"])
def test_a_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError, match="URL of the database is malformed"):
        Store(tmp_path, url)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StavesError, match="Not a directory") as caught:
        Store(tmp_path / "file" / "service")
    assert "STAVES_HOME" in str(caught.value)


EVENTS: list[Event] = [
    Grant(("a",)),
    Grant(("a", "b")),
    Hello(),
    Measured(),
    Preempt(),
    Pause(),
    Resume(),
    Stop(),
    Shutdown(),
    Lost(),
    Ended("saved"),
    Ended("failed", "why", 1),
]


def outcome(record: Record, event: Event) -> Record | None:
    try:
        return advance(record, event)
    except IllegalEvent:
        return None


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(EVENTS)), max_size=25))
def test_the_store_agrees_with_the_machine(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[int, Event]]
) -> None:
    with Store(tmp_path_factory.mktemp("store")) as store:
        expected = {submit(store): Record(str(n), "digits", retries=2) for n in (1, 2, 3)}
        changes = dict.fromkeys(expected, 1)
        for which, event in events:
            job = str(which + 1)
            after = outcome(expected[job], event)
            if after is None:
                with pytest.raises(IllegalEvent):
                    store.apply(job, event, now=2.0)
                continue
            assert store.apply(job, event, now=2.0) == after
            changes[job] += after != expected[job]
            expected[job] = after
        assert {job.id: job.record for job in store.jobs()} == expected
        for job, record in expected.items():
            lines = store.story(job)
            assert len(lines) == changes[job]
            assert lines[-1].after == record.state
            assert all(a.after == b.before for a, b in pairwise(lines))
            assert [found.id for found in store.jobs(states=[record.state])].count(job) == 1
            assert (store.job(job).finished is not None) == record.final
            json.dumps(store.job(job).record.to_document(), allow_nan=False)
