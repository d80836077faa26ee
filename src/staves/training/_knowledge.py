"""What a job has learned of its devices, kept through changes of membership and in checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from staves.steptime import Communication, Device, Line, StepTimeModel, ring_share
from staves.training._environment import WorkerDevice

Lines = tuple[Line, Line]


@dataclass(frozen=True)
class Knowledge:
    """Forward and backward lines by device name and by type, and the communication last seen."""

    lines: dict[str, Lines] = field(default_factory=dict)
    communication: Communication | None = None
    world_size: int = 1

    def lines_of(self, device: WorkerDevice) -> Lines | None:
        """Return what is known of this device, or else of its type."""
        return self.lines.get(device.name) or self.lines.get(_type_key(device.type))

    def communication_of(self, world_size: int) -> Communication | None:
        """Return the communication of that many ranks: a ring sends 2 (n - 1) / n of the bytes."""
        known = self.communication
        if known is None or self.world_size < 2:
            return known
        factor = float(ring_share(world_size) / ring_share(self.world_size))
        return Communication(known.ready, tuple(s * factor for s in known.seconds))

    def learn(self, model: StepTimeModel, devices: Sequence[WorkerDevice]) -> Knowledge:
        """Return the knowledge with a fitted model taken in."""
        lines = dict(self.lines)
        for device, fitted in zip(devices, model.devices, strict=True):
            lines[device.name] = lines[_type_key(device.type)] = (
                fitted.forward,
                fitted.backward,
            )
        return Knowledge(lines, model.communication, len(devices))

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
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Knowledge:
        """Return what `to_document` wrote."""
        lines = {
            name: (Line(*forward), Line(*backward))
            for name, (forward, backward) in document["lines"].items()
        }
        ready, seconds = document["ready"], document["seconds"]
        communication = None if ready is None else Communication(tuple(ready), tuple(seconds))
        return cls(lines, communication, document["world_size"])


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


def _type_key(name: str) -> str:
    return f"type {name}"
