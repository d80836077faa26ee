"""Who may use the service."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Any, Self, get_args

from sqlalchemy import Row, delete, insert, select

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.service._database import Database
from staves.service._rows import Role, Token
from staves.service._tables import tokens

_ROLES: tuple[Role, ...] = get_args(Role)


class Access:
    """The part of the store that holds tokens, by their hashes only; `Store` has all of it."""

    def __init__(self, folder: Path, url: str | None = None, *, reader: bool = False) -> None:
        self._database = Database(folder, url, reader=reader)

    def close(self) -> None:
        """Close the store, and let another process open it."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_token(self, user: str, role: Role, *, now: float) -> str:
        """Make a token and return it: it cannot be had again, only its hash is kept.

        Raises:
            InputError: there is no such role.
        """
        if role not in _ROLES:
            raise InputError(f"{quoted(role)} is no role", hint=suggestion(role, _ROLES))
        token = secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            connection.execute(
                insert(tokens).values(hash=_hash(token), user=user, role=role, created=now)
            )
        return token

    def token(self, token: str) -> Token | None:
        """Return who a token stands for; None where it is not known."""
        query = select(tokens).where(tokens.c.hash == _hash(token))
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _token(row)

    def tokens(self) -> list[Token]:
        """Return whom there are tokens for, oldest first."""
        with self._database.reading() as connection:
            return [_token(row) for row in connection.execute(select(tokens).order_by(tokens.c.id))]

    def remove_token(self, number: int) -> None:
        """Take a token away, by its number. Raises InputError where there is none."""
        with self._database.writing() as connection:
            if not connection.execute(delete(tokens).where(tokens.c.id == number)).rowcount:
                raise InputError(f"{number}: no such token", hint="tokens are listed by number")


def _hash(token: str) -> str:
    # Tokens are random and long: no salt, and no slow hash, is needed against guessing.
    return hashlib.sha256(token.encode()).hexdigest()


def _token(row: Row[Any]) -> Token:
    return Token(row.id, row.user, row.role, row.created)
