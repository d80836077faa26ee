"""What the store keeps of how fast jobs were."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection
from typing import Any

from sqlalchemy import Row, String, cast, select

from staves.service._access import Access
from staves.service._job_rows import number_of
from staves.service._rows import MeasuredJob, Round
from staves.service._states import FINAL
from staves.service._tables import jobs, rounds

logger = logging.getLogger(__name__)

_COLUMNS = [
    # As text: a damaged document must not keep the others from being read.
    cast(column, String).label("devices") if column is rounds.c.devices else column
    for column in rounds.c
]


class Past(Access):
    """The part of the store that holds measured rounds; `Store` has all of it."""

    def past(self) -> tuple[str, ...]:
        """Return the ids of the measured jobs that have ended, oldest first.

        What was measured of them changes no more: the same ids have the same rounds.
        """
        query = (
            select(rounds.c.job)
            .distinct()
            .join_from(rounds, jobs)
            .where(jobs.c.state.in_(FINAL))
            .order_by(rounds.c.job)
        )
        with self._database.reading() as connection:
            return tuple(str(job) for job in connection.scalars(query))

    def measured(
        self, ids: Collection[str] | None = None, *, owner: str | None = None
    ) -> list[MeasuredJob]:
        """Return what was measured of jobs, in order of submission.

        Rounds that are damaged are left out, and told of in the log.

        Args:
            ids: of these jobs only; None for all whose rounds are kept.
            owner: of this user's jobs only.
        """
        of_jobs = (
            select(jobs.c.id, jobs.c.owner, jobs.c.knowledge)
            .where(jobs.c.id.in_(select(rounds.c.job)))
            .order_by(jobs.c.id)
        )
        if ids is not None:
            of_jobs = of_jobs.where(jobs.c.id.in_([number_of(job) for job in ids]))
        if owner is not None:
            of_jobs = of_jobs.where(jobs.c.owner == owner)
        with self._database.reading() as connection:
            found = connection.execute(of_jobs).all()
            of_rounds = (
                select(*_COLUMNS)
                .where(rounds.c.job.in_([row.id for row in found]))
                .order_by(rounds.c.job, rounds.c.attempt, rounds.c.number)
            )
            by_job: dict[int, list[Round]] = {}
            for row in connection.execute(of_rounds):
                if (found_round := _round_of(row)) is not None:
                    by_job.setdefault(row.job, []).append(found_round)
        return [
            MeasuredJob(str(row.id), row.owner, row.knowledge, tuple(by_job[row.id]))
            for row in found
            if row.id in by_job
        ]


def _round_of(row: Row[Any]) -> Round | None:
    """Return the round of a row; None where it is none."""
    try:
        devices = json.loads(row.devices)
        counts = [int(count) for count in devices.values()]
        sound = min(counts) >= 1 and 1 <= row.nodes <= sum(counts) and row.batch >= 1
        if sound and math.isfinite(row.throughput) and row.throughput > 0:
            return Round(row.attempt, row.number, devices, row.nodes, row.batch, row.throughput)
    except (ValueError, TypeError, AttributeError):
        pass
    logger.warning(
        "round %s of attempt %s of job %s is damaged, and left out",
        row.number,
        row.attempt,
        row.job,
    )
    return None
