"""What is known of the wire between devices: the rings that were measured, and those to expect.

All devices of a ring send as many bytes, so its slowest hop decides: a ring of several types is
expected to be as slow as the slowest of those that its types were measured in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.hardware import Link
from staves.steptime._model import Communication, ring_share

FREE = Communication((1.0,), (0.0,))


@dataclass(frozen=True)
class Ring:
    """Devices that have shared their gradients, and what that took.

    Args:
        types: of the devices, ascending, each once; none where that is not known.
        nodes: in which they were, ascending, each once; none where that is not known.
        devices: how many.
        communication: what was measured.
        steps: in how many steps it was.
        sizes: bytes of each bucket; empty where they are not known.
        link: over which it is expected to go, though it was not measured there (`behind`).

    Raises:
        InputError: there is no device.
    """

    types: tuple[str, ...]
    nodes: tuple[str, ...]
    devices: int
    communication: Communication
    steps: float = 0.0
    sizes: tuple[int, ...] = ()
    link: Link | None = None

    def __post_init__(self) -> None:
        if self.devices < 1:
            raise InputError(f"a ring of {self.devices} devices is none")

    @property
    def across(self) -> bool:
        """Whether the gradients went over links between nodes."""
        return len(self.nodes) > 1

    def of(self, devices: int) -> Communication:
        """Return the communication of that many devices; see `seconds_of`.

        What one device has shown of itself tells nothing of more: it is returned as it is.
        """
        if self.devices == 1:
            return self.communication
        seconds = self.seconds_of(np.array([devices]))[0]
        return Communication(self.communication.ready, tuple(seconds.tolist()))

    def seconds_of(self, devices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the seconds of each bucket (C, K) in rings of these sizes (C,).

        Each of n devices sends 2 (n - 1) / n of the bytes. Over a link (`behind`) no bucket is
        faster than its bytes there, and waits for each of the ring's 2 (n - 1) rounds: that is
        n - 1 times the latency of two devices.

        Raises:
            InputError: this is the ring of one device.
        """
        if self.devices == 1:
            raise InputError("what one device has shown of itself tells nothing of more")
        share = ring_share(devices)[:, None]
        known = np.array(self.communication.seconds)
        seconds: NDArray[np.float64] = share / ring_share(self.devices) * known
        if self.link is None:
            return seconds
        fixed = self.link.latency * (devices[:, None] - 1)
        sent = share * 8 / self.link.bits_per_second * np.array(self.sizes, dtype=np.float64)
        slowest: NDArray[np.float64] = np.maximum(seconds, fixed + sent)
        return slowest

    def behind(self, link: Link) -> Ring:
        """Return the ring as it would be over such a link at best.

        It is itself where the bytes of its buckets are not known.
        """
        if len(self.sizes) != len(self.communication.ready):
            return self
        return replace(self, link=link)

    def to_document(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "types": list(self.types),
            "nodes": list(self.nodes),
            "devices": self.devices,
            "ready": list(self.communication.ready),
            "seconds": list(self.communication.seconds),
            "steps": self.steps,
            "sizes": list(self.sizes),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Ring:
        """Return what `to_document` wrote."""
        return cls(
            tuple(document["types"]),
            tuple(document["nodes"]),
            document["devices"],
            Communication(tuple(document["ready"]), tuple(document["seconds"])),
            document["steps"],
            tuple(document["sizes"]),
        )


def rings_of(document: Mapping[str, Any]) -> tuple[Ring, ...]:
    """Return the rings in what a job has learned (`Knowledge.to_document`), the newest last.

    A document from before rings were told apart has one, of unknown types.

    Raises:
        InputError: as `Ring` and `Communication`.
        KeyError, TypeError: it is not of that form.
    """
    if "rings" in document:
        return tuple(Ring.from_document(each) for each in document["rings"])
    if document["ready"] is None:
        return ()
    known = Communication(tuple(document["ready"]), tuple(document["seconds"]))
    steps = document.get("communication_steps", 0.0)
    return (Ring((), (), document["world_size"], known, steps),)


def ring_to_expect(
    rings: Sequence[Ring],
    types: Collection[str],
    *,
    across: bool | None = None,
    link: Link | None = None,
) -> Ring | None:
    """Return the measured ring that tells most of one of these types; None where none does.

    The ring of the very types, if it was measured. Else the slowest of those over a part of them,
    if these have all of the types in them: no ring is faster than its slowest hop. Else the fastest
    of those with further types, or what is known of a part, or the last one measured; and over
    several nodes no faster than the link between them.

    Args:
        rings: measured, the newest last.
        types: of the devices of the ring that is asked for.
        across: whether it spans several nodes; rings that do likewise come first. None: any.
        link: what to expect of the links between such nodes, measured or declared; None where
            nothing is known.
    """
    wanted = frozenset(types)
    shared = [ring for ring in rings if ring.devices > 1]
    alike = [ring for ring in shared if across is None or ring.across == across]
    found = _best(alike, wanted) or _best(shared, wanted) or next(reversed(alike or shared), None)
    if found is None or not across or link is None or _told(alike, wanted):
        return found
    return found.behind(link)


def _best(rings: Sequence[Ring], wanted: frozenset[str]) -> Ring | None:
    exact = [ring for ring in rings if wanted == frozenset(ring.types)]
    if exact:
        return exact[-1]
    parts = [ring for ring in rings if ring.types and wanted > frozenset(ring.types)]
    wholes = [ring for ring in rings if wanted < frozenset(ring.types)]
    if wholes and not _told(parts, wanted):
        return min(wholes, key=_slowness)
    return max(parts, key=_slowness, default=None)


def _told(rings: Sequence[Ring], wanted: frozenset[str]) -> bool:
    """Whether each of the types was measured in a ring without others."""
    parts = [frozenset(ring.types) for ring in rings if wanted >= frozenset(ring.types)]
    return frozenset[str]().union(*parts) == wanted


def _slowness(ring: Ring) -> float:
    """Return the seconds in which a device's own bytes go once over the slowest hop."""
    return sum(ring.communication.seconds) / float(ring_share(ring.devices))
