"""What a job has learned of its devices, kept through changes of membership and in checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from staves.hardware import Link
from staves.steptime import (
    FREE,
    Cell,
    Communication,
    Device,
    Line,
    Ring,
    StepTimeModel,
    fit_cells,
    ring_to_expect,
    rings_of,
    type_key,
)
from staves.training._environment import WorkerDevice

Lines = tuple[Line, Line]
Phase = Literal["forward", "backward", "data", "update"]
Phases = Mapping[Phase, tuple[Cell, ...]]
"""Cells of each phase; `data` and `update` are parts of `forward`."""


@dataclass(frozen=True)
class Knowledge:
    """What was measured and fitted, by device name (which tells its host) and by type.

    Attributes:
        lines: forward and backward lines as last fitted.
        cells: the measurements behind them; a device that has changed has none until it is measured
            again, and its line tells the shape meanwhile.
        rings: what sharing gradients took, a ring for each set of types, in one node or over
            several; the last one measured stands last.
    """

    lines: dict[str, Lines] = field(default_factory=dict)
    cells: dict[str, Phases] = field(default_factory=dict)
    rings: tuple[Ring, ...] = ()

    @property
    def communication(self) -> Communication | None:
        """As last seen."""
        return self.rings[-1].communication if self.rings else None

    def lines_of(self, device: WorkerDevice) -> Lines | None:
        """Return what is known of this device, or else of its type."""
        return self.lines.get(device.name) or self.lines.get(type_key(device.type))

    def ring_of(self, devices: Sequence[WorkerDevice]) -> Ring | None:
        """Return the ring measured of their types, as they are in one node or over several; or
        None."""
        blank = ring(devices, FREE)
        return next((known for known in self.rings if _alike(known, blank)), None)

    def communication_of(self, devices: Sequence[WorkerDevice]) -> Communication | None:
        """Return the communication to expect of these devices (`ring_to_expect`)."""
        if not self.rings:
            return None
        own = self.ring_of(devices)
        if len(devices) == 1:
            return FREE if own is None else own.communication
        types = {device.type for device in devices}
        across = len({device.node for device in devices}) > 1
        declared = [device.link for device in devices if device.link is not None]
        slowest = Link(min(declared)) if declared else None
        expected = ring_to_expect(self.rings, types, across=across, link=slowest)
        return self.communication if expected is None else expected.of(len(devices))

    def with_ring(self, new: Ring) -> Knowledge:
        """Return the knowledge with `new` in the place of what was measured of its like."""
        others = tuple(known for known in self.rings if not _alike(known, new))
        return replace(self, rings=(*others, new))

    def learn(self, model: StepTimeModel, devices: Sequence[WorkerDevice]) -> Knowledge:
        """Return the knowledge with a fitted model taken in.

        The lines of a type are those of all its devices' measurements together.
        """
        lines = dict(self.lines)
        for device, fitted in zip(devices, model.devices, strict=True):
            lines[device.name] = fitted.forward, fitted.backward
            key = type_key(device.type)
            of_type, before = self.cells.get(key), self.lines.get(key, (None, None))
            lines[key] = lines[device.name]
            if of_type is not None:
                lines[key] = (
                    fit_cells(of_type["forward"], before[0] or fitted.forward).line,
                    fit_cells(of_type["backward"], before[1] or fitted.backward).line,
                )
        own, shared = self.ring_of(devices), ring(devices, model.communication)
        if own is not None:
            shared = replace(shared, steps=own.steps, sizes=own.sizes)
        return replace(self, lines=lines).with_ring(shared)

    def forget(self, names: Iterable[str]) -> Knowledge:
        """Return the knowledge without the measurements of these devices: they have changed."""
        left_out = set(names)
        return replace(self, cells={n: c for n, c in self.cells.items() if n not in left_out})

    def to_document(self) -> dict[str, Any]:
        """Return plain values, for a checkpoint."""
        last = self.rings[-1] if self.rings else None
        return {
            "lines": {
                name: [[line.fixed, line.per_sample, line.floor] for line in pair]
                for name, pair in self.lines.items()
            },
            "ready": list(last.communication.ready) if last else None,
            "seconds": list(last.communication.seconds) if last else None,
            "world_size": last.devices if last else 1,
            "cells": {
                name: {
                    phase: [[c.batch, c.weight, c.seconds, c.variance] for c in cells]
                    for phase, cells in phases.items()
                }
                for name, phases in self.cells.items()
            },
            "rings": [known.to_document() for known in self.rings],
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Knowledge:
        """Return what `to_document` wrote, or its like from before there were cells."""
        lines = {
            name: (Line(*forward), Line(*backward))
            for name, (forward, backward) in document["lines"].items()
        }
        cells: dict[str, Phases] = {
            name: {phase: tuple(Cell(*row) for row in rows) for phase, rows in phases.items()}
            for name, phases in document.get("cells", {}).items()
        }
        return cls(lines, cells, rings_of(document))


def ring(devices: Sequence[WorkerDevice], communication: Communication) -> Ring:
    """Return the ring of these devices."""
    types, nodes = {d.type for d in devices}, {d.node for d in devices}
    return Ring(tuple(sorted(types)), tuple(sorted(nodes)), len(devices), communication)


def _alike(one: Ring, other: Ring) -> bool:
    """Whether one is measured in place of the other: a device alone has no ring to speak of."""
    alone = one.devices == 1
    return (one.types, one.across, alone) == (other.types, other.across, other.devices == 1)


def known_devices(
    knowledge: Knowledge, devices: Sequence[WorkerDevice], bounds: Sequence[tuple[int, int | None]]
) -> StepTimeModel | None:
    """Return the model of these devices from what is known; None where one of them is not."""
    lines = [knowledge.lines_of(device) for device in devices]
    communication = knowledge.communication_of(devices)
    if communication is None or any(pair is None for pair in lines):
        return None
    return StepTimeModel(
        tuple(
            Device(f"{rank}:{device.name}", device.type, *pair, *bound)
            for rank, (device, pair, bound) in enumerate(zip(devices, lines, bounds, strict=True))
            if pair is not None
        ),
        communication,
    )
