"""The database under the store: how it is opened, locked, migrated, read and written.

SQLite: WAL, `BEGIN IMMEDIATE` for every write (a plain BEGIN that reads first and then writes fails
with "database is locked" wherever two meet), and every commit is on disk before it returns.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from staves.errors import InputError, StavesError
from staves.service._mounts import network_file_system

_BUSY_MILLISECONDS = 30_000

_IMMEDIATE = "staves_immediate"


class Database:
    """An open database, with every table up to date.

    Args:
        folder: where the lock and, without `url`, the SQLite file are; it is made.
        url: of another database, `postgresql+psycopg://...`; None for SQLite in `folder`.
        reader: only read: take no lock, migrate nothing.

    Raises:
        InputError: another process has it open, the URL is malformed, or the folder is on a network
            file system.
        StavesError: it is damaged, was written by a newer version, or cannot be written.
    """

    def __init__(self, folder: Path, url: str | None = None, *, reader: bool = False) -> None:
        self.path = folder / "staves.db"
        self._reader = reader
        self._lock: int | None = None
        self._shown = str(self.path)
        if url is not None:
            self._shown = _without_password(url)
        elif reader and not self.path.exists():
            raise InputError(f"{self.path}: no such database", hint="`staves up` makes it")
        elif kind := network_file_system(folder):
            raise InputError(
                f"{folder} is on a network file system ({kind}), where SQLite loses data",
                hint="set STAVES_HOME to a local disk, or give the URL of a PostgreSQL database",
            )
        self._open(folder, url)

    def _open(self, folder: Path, url: str | None) -> None:
        try:
            if not self._reader:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._lock = _locked(folder / "store.lock")
                if url is None:  # it holds what was copied from people's environments
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StavesError(
                f"{error.filename or folder}: {error.strerror or error}",
                hint="set STAVES_HOME to a folder with space that you may write",
            ) from None
        try:
            self._engine = create_engine(
                url or f"sqlite:///{self.path}",
                connect_args={} if url else {"timeout": 30},
                max_overflow=-1,  # a thread that only reads should wait for no other
            )
            self._writing = self._engine.execution_options(**{_IMMEDIATE: True})
            if self._engine.dialect.name == "sqlite":
                event.listen(self._engine, "connect", self._connected)
                event.listen(self._engine, "begin", _begin)
            self._check_and_migrate()
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads: it sees one moment, and waits for no writer."""
        with self._errors(), self._engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes: all of it is on disk after the block, or nothing.

        Raises:
            StavesError: it could not be written; nothing was.
        """
        with self._errors(), self._writing.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close it, and let another process open it."""
        if hasattr(self, "_engine"):
            self._engine.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _connected(self, connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver begins no transactions: `_begin` does
        for pragma in (
            f"busy_timeout = {_BUSY_MILLISECONDS}",
            "query_only = on" if self._reader else "journal_mode = wal",
            "synchronous = full",
            "foreign_keys = on",
        ):
            connection.execute(f"PRAGMA {pragma}").close()

    def _check_and_migrate(self) -> None:
        config = Config()
        scripts = str(Path(__file__).parent / "migrations")
        config.set_main_option("script_location", scripts.replace("%", "%%"))
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        with self.reading() if self._reader else self.writing() as connection:
            if self._engine.dialect.name == "sqlite":
                said = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                if said != "ok":
                    raise _damaged(self._shown, " ".join(str(said).split()))
            there = set(MigrationContext.configure(connection).get_current_heads())
            if there - known:
                raise StavesError(
                    f"{self._shown}: was written by a newer version of staves",
                    hint="install that version, or set STAVES_HOME to another folder",
                )
            if not self._reader:
                config.attributes["connection"] = connection
                command.upgrade(config, "head")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            said = " ".join(str(error.orig).split())
            if "disk is full" in said:
                raise StavesError(
                    f"{self._shown}: the disk is full: nothing was written",
                    hint="free some space",
                ) from error
            if "is locked" in said:
                raise StavesError(
                    f"{self._shown}: {said}", hint="end the other program that has it open"
                ) from error
            if "malformed" in said or "not a database" in said:
                raise _damaged(self._shown, said) from error
            raise StavesError(f"{self._shown}: {said}") from error


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _damaged(shown: str, said: str) -> StavesError:
    return StavesError(
        f"{shown}: is damaged: {said}",
        hint="put a copy of it in place, or move it away to begin with no jobs",
    )


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of the store until it is closed."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InputError(
            f"{path.parent}: another process has this store open",
            hint="`staves status` tells which service runs, `staves down` ends it",
        ) from None
    return lock


def _without_password(url: str) -> str:
    try:
        made = make_url(url)
        made.get_dialect()
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError):
        raise InputError(
            "the URL of the database is malformed, or its driver is not installed",
            hint="write one like postgresql+psycopg://user@host/staves",
        ) from None
    return made.render_as_string(hide_password=True)
