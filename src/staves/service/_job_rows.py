"""Jobs, their stories and spans: from values to rows, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from staves.errors import InputError, printable, quoted
from staves.service._facade import UnknownName
from staves.service._rows import Job, Span, storable
from staves.service._spec import JobSpec
from staves.service._states import Record
from staves.service._tables import jobs, requests, spans, stories

_LARGEST_ID = 2**31 - 1


def earlier_job(
    connection: Connection, owner: str, key: str, document: dict[str, Any], snapshot: str
) -> str | None:
    query = (
        select(jobs.c.id, jobs.c.spec, jobs.c.snapshot)
        .join_from(requests, jobs)
        .where(requests.c.owner == owner, requests.c.key == key)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    # What its owner had it scaled to since is no part of what was submitted.
    if ({**row.spec, "scaled": None}, row.snapshot) != ({**document, "scaled": None}, snapshot):
        raise InputError(
            f"the idempotency key {quoted(key)} was used for another job, {row.id}",
            hint="use a new key for a new job",
        )
    return str(row.id)


def insert_job(
    connection: Connection,
    spec: JobSpec,
    document: dict[str, Any],
    snapshot: str,
    owner: str,
    now: float,
    key: str | None,
) -> str:
    record = Record("", spec.name, retries=spec.retries)
    values = {
        "name": spec.name,
        "state": record.state,
        "owner": owner,
        "record": record.to_document(),
        "spec": document,
        "snapshot": snapshot,
        "submitted": now,
        "progress": {},
    }
    number: int = connection.execute(insert(jobs).values(values).returning(jobs.c.id)).scalar_one()
    record = Record(str(number), spec.name, retries=spec.retries)
    query = update(jobs).where(jobs.c.id == number)
    connection.execute(query.values(record=record.to_document()))
    tell(connection, record, record, "submit", now)
    if key is not None:
        connection.execute(insert(requests).values(owner=owner, key=key, job=number))
    return record.id


def tell(
    connection: Connection, before: Record, after: Record, event: str, now: float, text: str = ""
) -> None:
    text = text or after.reason or (", ".join(after.devices) if event == "grant" else "")
    connection.execute(
        insert(stories).values(
            job=int(after.id),
            time=now,
            event=event,
            before=before.state,
            after=after.state,
            text=printable(text),
        )
    )


def keep_spans(
    connection: Connection, job: int, attempt: int, stretches: Sequence[Mapping[str, Any]]
) -> None:
    """Write the stretches from the last one that is stored: those before it are over."""
    own = (spans.c.job == job, spans.c.attempt == attempt)
    last = connection.scalar(select(func.max(spans.c.number)).where(*own)) or 0
    connection.execute(delete(spans).where(*own, spans.c.number >= last))
    rows = [
        {
            "job": job,
            "attempt": attempt,
            "number": number,
            "since": stretch["since"],
            "until": stretch.get("until"),
            "devices": list(stretch["devices"]),
            "figures": storable(
                {k: v for k, v in stretch.items() if k not in ("since", "until", "devices")}
            ),
        }
        for number, stretch in enumerate(stretches)
        if number >= last
    ]
    if rows:
        connection.execute(insert(spans), rows)


def number_of(job: str) -> int:
    """Return the number in the table; -1, which no job has, for what is no id."""
    if not re.fullmatch(r"[0-9]{1,10}", job) or int(job) > _LARGEST_ID:
        return -1
    return int(job)


def by_id(job: str) -> Any:
    return select(jobs).where(jobs.c.id == number_of(job))


def no_such_job(job: str) -> UnknownName:
    return UnknownName(f"{quoted(job)}: no such job", hint="`staves ps --all` lists them")


def job_of(row: Row[Any]) -> Job:
    return Job(
        record=Record.from_document(row.record),
        spec=JobSpec.from_document(row.spec, f"job {row.id}"),
        snapshot=row.snapshot,
        owner=row.owner,
        submitted=row.submitted,
        started=row.started,
        finished=row.finished,
        progress=row.progress,
        knowledge=row.knowledge,
        summary=row.summary,
    )


def span_of(row: Row[Any]) -> Span:
    return Span(
        job=str(row.job),
        attempt=row.attempt,
        number=row.number,
        since=row.since,
        until=row.until,
        devices=tuple(row.devices),
        figures=row.figures,
    )
