"""What the store keeps of the service itself: settings, drained nodes, decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, select

from staves.service._past import Past
from staves.service._rows import StoredDecision, storable
from staves.service._tables import decisions, nodes, settings


class Operations(Past):
    """The part of the store that is about no job in particular; `Store` has all of it."""

    def setting(self, key: str) -> Any:
        """Return a setting; None where it was never made."""
        with self._database.reading() as connection:
            return connection.scalar(select(settings.c.value).where(settings.c.key == key))

    def set(self, key: str, value: Any) -> None:
        """Make a setting; its value is a JSON document."""
        with self._database.writing() as connection:
            connection.execute(delete(settings).where(settings.c.key == key))
            connection.execute(insert(settings).values(key=key, value=storable(value)))

    def record_decision(self, document: Mapping[str, Any], *, now: float, keep: int = 1000) -> int:
        """Keep a decision of the scheduler, and only the last `keep` of them; return its number."""
        with self._database.writing() as connection:
            values = {"time": now, "document": storable(document)}
            query = insert(decisions).values(values).returning(decisions.c.id)
            number: int = connection.execute(query).scalar_one()
            connection.execute(delete(decisions).where(decisions.c.id <= number - keep))
        return number

    def decisions(self, limit: int = 1) -> list[StoredDecision]:
        """Return the last decisions, newest first."""
        query = select(decisions).order_by(decisions.c.id.desc()).limit(limit)
        with self._database.reading() as connection:
            return [
                StoredDecision(row.id, row.time, row.document) for row in connection.execute(query)
            ]

    def drain(self, node: str, *, drained: bool = True) -> None:
        """Have a node be given no jobs any more, or again."""
        with self._database.writing() as connection:
            connection.execute(delete(nodes).where(nodes.c.name == node))
            connection.execute(insert(nodes).values(name=node, drained=drained))

    def drained(self) -> frozenset[str]:
        """Return the names of the drained nodes."""
        with self._database.reading() as connection:
            return frozenset(connection.scalars(select(nodes.c.name).where(nodes.c.drained)))
