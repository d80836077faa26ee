"""Jobs, their stories and spans, decisions, requests, nodes, tokens and settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the first tables."""
    _jobs()
    _of_jobs()
    _of_the_service()


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("snapshot", sa.String(64), nullable=False),
        sa.Column("submitted", sa.Float(), nullable=False),
        sa.Column("started", sa.Float()),
        sa.Column("finished", sa.Float()),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("knowledge", sa.JSON()),
        sa.Column("summary", sa.JSON()),
        sqlite_autoincrement=True,
    )
    op.create_index("jobs_by_state", "jobs", ["state"])
    op.create_index("jobs_by_name", "jobs", ["name"])


def _of_jobs() -> None:
    op.create_table(
        "stories",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("job", sa.Integer(), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("time", sa.Float(), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("before", sa.String(16), nullable=False),
        sa.Column("after", sa.String(16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
    )
    op.create_index("stories_by_job", "stories", ["job"])
    op.create_table(
        "spans",
        sa.Column("job", sa.Integer(), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("until", sa.Float()),
        sa.Column("devices", sa.JSON(), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
    )
    op.create_index("spans_by_time", "spans", ["since"])
    op.create_table(
        "requests",
        sa.Column("owner", sa.String(255), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("job", sa.Integer(), sa.ForeignKey("jobs.id"), nullable=False),
    )


def _of_the_service() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("time", sa.Float(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("drained", sa.Boolean(), nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("value", sa.JSON(), nullable=False),
    )
