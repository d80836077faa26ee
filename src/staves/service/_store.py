"""What the service keeps: each method is one transaction, on disk before it returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select, update

from staves.errors import InputError, printable
from staves.service._job_rows import (
    by_id,
    earlier_job,
    insert_job,
    job_of,
    keep_spans,
    no_such_job,
    number_of,
    span_of,
    tell,
)
from staves.service._machine import advance
from staves.service._operations import Operations
from staves.service._round_rows import keep_rounds
from staves.service._rows import Job, Span, StoryLine, storable
from staves.service._spec import JobSpec
from staves.service._states import Event, Record, State
from staves.service._tables import jobs, spans, stories

LONGEST_KEY = 255
"""Characters of an idempotency key, and of the name of an owner."""


class Store(Operations):
    """The jobs of a service, and all that belongs to them. Methods may be called by any thread.

    Args:
        folder: where the database is: HOME/service.
        url: of a PostgreSQL database instead of a SQLite file there.
        reader: only read, while another process writes.

    Raises:
        InputError, StavesError: as `Database`. Methods that write raise StavesError where that
            fails: nothing was written then.
    """

    def submit(
        self, spec: JobSpec, snapshot: str, owner: str, *, now: float, key: str | None = None
    ) -> str:
        """Take in a job, and return its id.

        Args:
            spec: what it asks for.
            snapshot: the hash of its working directory.
            owner: who submits it.
            now: Unix seconds.
            key: whoever submits again with the same one gets the job there is already.

        Raises:
            InputError: the key was used for another job, or it or the owner is too long.
        """
        for what, text in (("the owner's name", owner), ("the idempotency key", key or "")):
            if len(text) > LONGEST_KEY:
                raise InputError(
                    f"{what} has {len(text)} characters, more than {LONGEST_KEY}", hint="shorten it"
                )
        document = spec.to_document()
        with self._database.writing() as connection:
            if key is not None:
                earlier = earlier_job(connection, owner, key, document, snapshot)
                if earlier is not None:
                    return earlier
            return insert_job(connection, spec, document, snapshot, owner, now, key)

    def apply(self, job: str, *events: Event, now: float) -> Record:
        """Take events into a job's state machine, and its story; return the new record.

        Record and story are read and written in one transaction: nothing comes between.

        Raises:
            InputError: there is no such job.
            IllegalEvent: it is in no state for one of the events; none was taken in.
        """
        with self._database.writing() as connection:
            row = connection.execute(by_id(job).with_for_update()).one_or_none()
            if row is None:
                raise no_such_job(job)
            record = Record.from_document(row.record)
            for event in events:
                after = advance(record, event)
                if after != record:
                    tell(connection, record, after, type(event).__name__.lower(), now)
                record = after
            started = now if row.started is None and record.attempt else row.started
            finished = now if row.finished is None and record.final else row.finished
            if record.to_document() != row.record or started != row.started:
                connection.execute(
                    update(jobs)
                    .where(jobs.c.id == int(job))
                    .values(
                        record=record.to_document(),
                        state=record.state,
                        started=started,
                        finished=finished,
                    )
                )
        return record

    def respecify(self, job: str, spec: JobSpec, text: str, *, now: float) -> None:
        """Have a job ask for something else from now on; `text` says what in its story.

        Raises:
            InputError: there is no such job.
        """
        with self._database.writing() as connection:
            row = connection.execute(by_id(job).with_for_update()).one_or_none()
            if row is None:
                raise no_such_job(job)
            record = Record.from_document(row.record)
            query = update(jobs).where(jobs.c.id == int(job))
            connection.execute(query.values(spec=spec.to_document()))
            tell(connection, record, record, "respecify", now, text)

    def observe(
        self,
        job: str,
        *,
        progress: Mapping[str, Any] | None = None,
        knowledge: Mapping[str, Any] | None = None,
        summary: Mapping[str, Any] | None = None,
        attempt: int = 0,
        stretches: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Keep what the engine tells of a job; what is None or empty stays as it is.

        Args:
            job: its id.
            progress, knowledge: as of `engines.Status`; nan and infinities are kept as null.
            summary: the figures of its end.
            attempt: to which `stretches` belong.
            stretches: `engines.Status.spans`: all of that attempt so far, in their order. Those
                that tell a step time are rounds, too, for `measured`.

        Raises:
            InputError: there is no such job.
        """
        told = {"progress": progress, "knowledge": knowledge, "summary": summary}
        values = {name: storable(value) for name, value in told.items() if value is not None}
        with self._database.writing() as connection:
            if connection.execute(by_id(job)).one_or_none() is None:
                raise no_such_job(job)
            if values:
                connection.execute(update(jobs).where(jobs.c.id == int(job)).values(values))
            if stretches:
                keep_spans(connection, int(job), attempt, stretches)
                keep_rounds(connection, int(job), attempt, stretches)

    def job(self, job: str) -> Job:
        """Return a job by its id. Raises InputError where there is none."""
        with self._database.reading() as connection:
            row = connection.execute(by_id(job)).one_or_none()
        if row is None:
            raise no_such_job(job)
        return job_of(row)

    def find(self, name: str, *, owner: str | None = None) -> Job:
        """Return a job by its id, or by its name where only one has it.

        Of several jobs with that name, the only one that is not final is meant; the newest where
        all are.

        Args:
            name: id or name.
            owner: only look at this user's jobs.

        Raises:
            InputError: there is none, or more than one.
        """
        query = select(jobs).order_by(jobs.c.id)
        by_number = jobs.c.id == number_of(name)
        query = query.where(by_number if name.isdigit() else jobs.c.name == printable(name))
        if owner is not None:
            query = query.where(jobs.c.owner == owner)
        with self._database.reading() as connection:
            found = [job_of(row) for row in connection.execute(query)]
        if len(found) > 1:
            found = [job for job in found if not job.record.final] or found[-1:]
        if not found:
            raise no_such_job(name)
        if len(found) > 1:
            newest = ", ".join(job.id for job in found[-3:])
            raise InputError(f"{len(found)} jobs are named {name}", hint=f"newest ids: {newest}")
        return found[0]

    def jobs(
        self,
        *,
        states: Collection[State] | None = None,
        owner: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> list[Job]:
        """Return jobs in order of submission.

        Args:
            states: only jobs in these; None for all.
            owner: only this user's jobs.
            before: only jobs that came before the one with this id.
            limit: the newest that many.
        """
        query = select(jobs).order_by(jobs.c.id.desc())
        if states is not None:
            query = query.where(jobs.c.state.in_(states))
        if owner is not None:
            query = query.where(jobs.c.owner == owner)
        if before is not None:
            query = query.where(jobs.c.id < number_of(before))
        if limit is not None:
            query = query.limit(limit)
        with self._database.reading() as connection:
            return [job_of(row) for row in connection.execute(query)][::-1]

    def story(self, job: str) -> list[StoryLine]:
        """Return all that has happened to a job, oldest first."""
        query = select(stories).where(stories.c.job == number_of(job)).order_by(stories.c.id)
        with self._database.reading() as connection:
            return [
                StoryLine(row.time, row.event, row.before, row.after, row.text)
                for row in connection.execute(query)
            ]

    def spans(self, job: str | None = None, *, since: float | None = None) -> list[Span]:
        """Return stretches of training in order of their beginning, of one job or of all.

        Args:
            job: the id of the job.
            since: leave out those that were over before (Unix seconds).
        """
        query = select(spans).order_by(spans.c.since, spans.c.job, spans.c.number)
        if job is not None:
            query = query.where(spans.c.job == number_of(job))
        if since is not None:
            query = query.where(spans.c.until.is_(None) | (spans.c.until >= since))
        with self._database.reading() as connection:
            return [span_of(row) for row in connection.execute(query)]
