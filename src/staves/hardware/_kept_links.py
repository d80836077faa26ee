"""Measured links between nodes, kept from one command to the next in HOME/links.json."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from staves.errors import InputError, StavesError
from staves.hardware._cluster import Cluster
from staves.hardware._links import Link, pair_of

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class KeptLink:
    """A link as it was measured, and when: Unix seconds."""

    link: Link
    measured_at: float


class KeptLinks:
    """The links that were measured, by the names of two nodes.

    Args:
        home: the folder of everything Staves keeps.
        warn: told, in one line and once for each state of the file, that it cannot be used.
    """

    def __init__(self, home: Path, warn: Callable[[str], None]) -> None:
        self.path = home / "links.json"
        self._warn = warn
        self._version: tuple[int, ...] | None = None
        self._links: Mapping[Pair, Link] = {}
        self._last: tuple[Cluster, Mapping[Pair, Link], Cluster] | None = None

    def read(self) -> dict[Pair, KeptLink]:
        """Return what is kept; nothing where no link was ever measured.

        Raises:
            InputError: the file is damaged, or cannot be read.
        """
        try:
            document = json.loads(self.path.read_bytes())
            return dict(_kept(entry) for entry in document["links"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, InputError) as error:
            why = error.strerror if isinstance(error, OSError) else repr(error)
            raise InputError(
                f"{self.path}: measured links cannot be read: {why}",
                hint="delete it, and measure again: staves links",
            ) from None

    def on(self, cluster: Cluster) -> Cluster:
        """Return the cluster with the links that are kept of its nodes.

        What cannot be read is warned of, and left out. Cheap: the file is read again only when it
        is another, and the same cluster has the same result.
        """
        links = self._current()
        if not links:
            return cluster
        if self._last is None or self._last[0] is not cluster or self._last[1] is not links:
            self._last = cluster, links, cluster.with_links(links)
        return self._last[2]

    def keep(self, measured: Mapping[Pair, KeptLink]) -> None:
        """Add links, in the place of what was kept of the same pairs; a damaged file gives way.

        Raises:
            StavesError: they cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with (self.path.parent / ".links.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # two commands at once must not lose a pair
                try:
                    whole = self.read()
                except InputError as error:
                    self._warn(str(error))
                    whole = {}
                self._write(whole | {pair_of(*pair): kept for pair, kept in measured.items()})
        except OSError as error:
            raise StavesError(
                f"{self.path}: {error.strerror or error}",
                hint="set STAVES_HOME to a folder with space that you may write",
            ) from None

    def _write(self, links: Mapping[Pair, KeptLink]) -> None:
        entries = [
            {
                "nodes": list(pair),
                "bits_per_second": kept.link.bits_per_second,
                "latency_seconds": kept.link.latency,
                "measured_at": kept.measured_at,
            }
            for pair, kept in sorted(links.items())
        ]
        part = self.path.with_name(f".links.{os.getpid()}")
        with part.open("w") as file:
            file.write(json.dumps({"links": entries}, indent=1))
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.path)

    def _current(self) -> Mapping[Pair, Link]:
        try:
            found = self.path.stat()
            version: tuple[int, ...] = found.st_ino, found.st_mtime_ns, found.st_size
        except OSError:  # absent; what else is wrong shows when it is there to be read
            version = ()
        if version != self._version:
            self._version, self._links = version, {}
            try:
                self._links = {pair: kept.link for pair, kept in self.read().items()}
            except InputError as error:
                self._warn(str(error))
        return self._links


def _kept(entry: Mapping[str, Any]) -> tuple[Pair, KeptLink]:
    one, other = entry["nodes"]
    if not (isinstance(one, str) and isinstance(other, str)) or one == other:
        raise InputError(f"{entry['nodes']!r} are no two nodes")
    link = Link(float(entry["bits_per_second"]), float(entry["latency_seconds"]))
    return pair_of(one, other), KeptLink(link, float(entry["measured_at"]))
