"""The tables of the store. A change here needs a new file in `migrations/versions`."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("record", JSON, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("snapshot", String(64), nullable=False),
    Column("submitted", Float, nullable=False),
    Column("started", Float),
    Column("finished", Float),
    Column("progress", JSON, nullable=False),
    Column("knowledge", JSON(none_as_null=True)),
    Column("summary", JSON(none_as_null=True)),
    Index("jobs_by_state", "state"),
    Index("jobs_by_name", "name"),
    # Else the number of a job that is deleted, the newest, would be given again.
    sqlite_autoincrement=True,
)

stories = Table(
    "stories",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job", ForeignKey("jobs.id"), nullable=False),
    Column("time", Float, nullable=False),
    Column("event", String(16), nullable=False),
    Column("before", String(16), nullable=False),
    Column("after", String(16), nullable=False),
    Column("text", Text, nullable=False),
    Index("stories_by_job", "job"),
)

spans = Table(
    "spans",
    metadata,
    Column("job", ForeignKey("jobs.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("since", Float, nullable=False),
    Column("until", Float),
    Column("devices", JSON, nullable=False),
    Column("figures", JSON, nullable=False),
    Index("spans_by_time", "since"),
)

rounds = Table(
    "rounds",
    metadata,
    Column("job", ForeignKey("jobs.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("devices", JSON, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("batch", Integer, nullable=False),
    Column("throughput", Float, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("time", Float, nullable=False),
    Column("document", JSON, nullable=False),
    sqlite_autoincrement=True,
)

requests = Table(
    "requests",
    metadata,
    Column("owner", String(255), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("job", ForeignKey("jobs.id"), nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("drained", Boolean, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("user", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("created", Float, nullable=False),
)

settings = Table(
    "settings",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("value", JSON, nullable=False),
)
