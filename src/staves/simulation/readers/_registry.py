"""All formats, and which one a file is of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from staves.errors import InputError, quoted
from staves.simulation._availability import Availability
from staves.simulation._workload import Workload
from staves.simulation.readers import (
    _availability,
    _chronus,
    _elasticflow,
    _gavel,
    _muri,
    _nodes,
    _openb_pods,
    _philly,
    _pollux,
    _throughputs,
    _tiresias,
)
from staves.simulation.readers._format import Format, Holds, Source, open_source
from staves.simulation.readers._nodes import NodeList
from staves.simulation.readers._table import ThroughputTable

FORMATS: tuple[Format, ...] = (
    _pollux.FORMAT,
    _gavel.FORMAT,
    _philly.FORMAT,
    _elasticflow.FORMAT,
    _tiresias.FORMAT,
    _tiresias.DURATIONS,
    _chronus.FORMAT,
    _muri.FORMAT,
    _openb_pods.FORMAT,
    *_nodes.FORMATS,
    *_availability.FORMATS,
    *_throughputs.FORMATS,
)
"""Every layout that can be read."""

Contents = Workload | NodeList | Availability | ThroughputTable
One = TypeVar("One", Workload, NodeList, Availability)


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a file holds, and of which format it is."""

    format: Format
    contents: Contents


def read_file(path: Path) -> Recognised:
    """Read a file of any known format, recognised by its content.

    Raises:
        InputError: no format is like it, or the file is damaged; with file, line and column.
    """
    source = open_source(path)
    found = _format(source)
    return Recognised(found, found.read(source))


def _format(source: Source) -> Format:
    for one in FORMATS:
        if one.shape is not None and one.shape(source):
            return one
    claiming = [one for one in FORMATS if one.claims(source.header)]
    if not claiming:
        what = "this JSON" if source.document is not None else _columns(source)
        known = "; ".join(one.name for one in FORMATS)
        raise InputError(f"{source.path}:1: no known format has {what}", hint=f"known: {known}")
    return max(claiming, key=lambda one: one.likeness(source.header))


def _columns(source: Source) -> str:
    return "the columns " + quoted(", ".join(source.header))


def read_workload(path: Path) -> Workload:
    """Read the jobs of a file of any format that holds jobs.

    Raises:
        InputError: as `read_file`; or it holds no jobs.
    """
    return _of_kind(path, Workload, "jobs")


def read_node_list(path: Path) -> NodeList:
    """Read the nodes of a file of any format that holds nodes.

    Raises:
        InputError: as `read_file`; or it holds no nodes.
    """
    return _of_kind(path, NodeList, "nodes")


def read_availability(path: Path) -> Availability:
    """Read an availability trace of any format.

    Raises:
        InputError: as `read_file`; or it is none.
    """
    return _of_kind(path, Availability, "availability")


def _of_kind(path: Path, kind: type[One], wanted: Holds) -> One:
    found = read_file(path)
    if isinstance(found.contents, kind):
        return found.contents
    able = "; ".join(one.name for one in FORMATS if one.holds == wanted)
    raise InputError(
        f"{path}:1: is a {found.format.name}, and holds {found.format.holds}, not {wanted}",
        hint=f"{wanted}: {able}",
    )
