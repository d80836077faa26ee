"""How fast jobs were on their devices, as far as the stretches that are stored tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table of rounds, and fill it from that of spans."""
    rounds = op.create_table(
        "rounds",
        sa.Column("job", sa.Integer(), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("devices", sa.JSON(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("throughput", sa.Float(), nullable=False),
    )
    rows = list(_measured())
    if rows:
        op.bulk_insert(rounds, rows)


def _measured() -> Iterator[dict[str, Any]]:
    spans = sa.table(
        "spans",
        sa.column("job", sa.Integer()),
        sa.column("attempt", sa.Integer()),
        sa.column("number", sa.Integer()),
        sa.column("devices", sa.JSON()),
        sa.column("figures", sa.JSON()),
    )
    for span in op.get_bind().execute(sa.select(spans)).all():
        seconds = span.figures.get("step_seconds")
        batch = sum(span.figures.get("local_batches") or ())
        if not (seconds and seconds > 0 and batch > 0):
            continue
        parted = [name.partition("/") for name in span.devices]  # NODE/TYPE-INDEX
        yield {
            "job": span.job,
            "attempt": span.attempt,
            "number": span.number,
            "devices": dict(Counter(place.rpartition("-")[0] for _, _, place in parted)),
            "nodes": len({node for node, _, _ in parted}),
            "batch": batch,
            "throughput": batch / seconds,
        }
