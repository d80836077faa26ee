"""What a job has learned of its devices, kept through changes of membership and in checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from staves.steptime import (
    Cell,
    Communication,
    Device,
    Line,
    StepTimeModel,
    fit_cells,
    ring_share,
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
        communication: as last seen over `world_size` devices, in `communication_steps` steps.
    """

    lines: dict[str, Lines] = field(default_factory=dict)
    communication: Communication | None = None
    world_size: int = 1
    cells: dict[str, Phases] = field(default_factory=dict)
    communication_steps: float = 0.0

    def lines_of(self, device: WorkerDevice) -> Lines | None:
        """Return what is known of this device, or else of its type."""
        return self.lines.get(device.name) or self.lines.get(type_key(device.type))

    def communication_of(self, world_size: int) -> Communication | None:
        """Return the communication of that many ranks: a ring sends 2 (n - 1) / n of the bytes."""
        known = self.communication
        if known is None or self.world_size < 2:
            return known
        factor = float(ring_share(world_size) / ring_share(self.world_size))
        return Communication(known.ready, tuple(s * factor for s in known.seconds))

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
        return replace(
            self, lines=lines, communication=model.communication, world_size=len(devices)
        )

    def forget(self, names: Iterable[str]) -> Knowledge:
        """Return the knowledge without the measurements of these devices: they have changed."""
        left_out = set(names)
        return replace(self, cells={n: c for n, c in self.cells.items() if n not in left_out})

    def to_document(self) -> dict[str, Any]:
        """Return plain values, for a checkpoint."""
        communication = self.communication
        return {
            "lines": {
                name: [[line.fixed, line.per_sample, line.floor] for line in pair]
                for name, pair in self.lines.items()
            },
            "ready": list(communication.ready) if communication else None,
            "seconds": list(communication.seconds) if communication else None,
            "world_size": self.world_size,
            "cells": {
                name: {
                    phase: [[c.batch, c.weight, c.seconds, c.variance] for c in cells]
                    for phase, cells in phases.items()
                }
                for name, phases in self.cells.items()
            },
            "communication_steps": self.communication_steps,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Knowledge:
        """Return what `to_document` wrote, or its like from before there were cells."""
        lines = {
            name: (Line(*forward), Line(*backward))
            for name, (forward, backward) in document["lines"].items()
        }
        ready, seconds = document["ready"], document["seconds"]
        communication = None if ready is None else Communication(tuple(ready), tuple(seconds))
        cells: dict[str, Phases] = {
            name: {phase: tuple(Cell(*row) for row in rows) for phase, rows in phases.items()}
            for name, phases in document.get("cells", {}).items()
        }
        return cls(
            lines,
            communication,
            document["world_size"],
            cells,
            document.get("communication_steps", 0.0),
        )


def known_devices(
    knowledge: Knowledge, devices: Sequence[WorkerDevice], bounds: Sequence[tuple[int, int | None]]
) -> StepTimeModel | None:
    """Return the model of these devices from what is known; None where one of them is not."""
    lines = [knowledge.lines_of(device) for device in devices]
    communication = knowledge.communication_of(len(devices))
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
