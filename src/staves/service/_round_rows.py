"""Measured rounds: from stretches of training to rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from staves.service._states import FINAL
from staves.service._tables import jobs, rounds

KEPT = 100
"""Jobs that have ended, the newest, whose rounds are kept: as many as the estimator learns from."""


def keep_rounds(
    connection: Connection, job: int, attempt: int, stretches: Sequence[Mapping[str, Any]]
) -> None:
    """Write the rounds from the last one that is stored: those before it are over.

    With a new one, those of jobs that ended long ago go.
    """
    own = (rounds.c.job == job, rounds.c.attempt == attempt)
    last = connection.scalar(select(func.max(rounds.c.number)).where(*own))
    rows = [
        {"job": job, "attempt": attempt, **row}
        for row in _measured(stretches)
        if last is None or row["number"] >= last
    ]
    if not rows:
        return
    connection.execute(delete(rounds).where(*own, rounds.c.number >= rows[0]["number"]))
    connection.execute(insert(rounds), rows)
    if last is None or rows[-1]["number"] > last:
        _forget(connection)


def _measured(stretches: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, stretch in enumerate(stretches):
        seconds, batch = stretch.get("step_seconds"), sum(stretch.get("local_batches") or ())
        if not (seconds and math.isfinite(seconds) and seconds > 0 and batch > 0):
            continue
        parted = [name.partition("/") for name in stretch["devices"]]
        yield {
            "number": number,
            "devices": dict(Counter(place.rpartition("-")[0] for _, _, place in parted)),
            "nodes": len({node for node, _, _ in parted}),
            "batch": batch,
            "throughput": batch / seconds,
        }


def _forget(connection: Connection) -> None:
    past = (
        select(rounds.c.job)
        .distinct()
        .join_from(rounds, jobs)
        .where(jobs.c.state.in_(FINAL))
        .order_by(rounds.c.job.desc())
        .offset(KEPT)
    )
    old = list(connection.scalars(past))
    if old:
        connection.execute(delete(rounds).where(rounds.c.job.in_(old)))
