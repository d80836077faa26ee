"""What is known of a job's steps, by device type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from staves.errors import InputError
from staves.estimation._rates import GuessedRates, ProfileRates
from staves.estimation._steps import TypeLines
from staves.hardware import Layout
from staves.steptime import Communication, Line, Ring, rings_of, type_of

Lines = tuple[Line, Line]

FIXED_SHARE, FORWARD_SHARE = 0.1, 0.35
"""Of a step, where nothing better is known."""


@dataclass(frozen=True)
class JobProfile:
    """A job as far as it has been measured. One sample is one reference sample: fixed batches.

    Args:
        batch: total batch, samples a step.
        lines: forward and backward pass by device type, where they were measured.
        communication: as measured with `world_size` devices; None before two have run together.
        world_size: devices that shared the gradients when `communication` was measured.
        bounds: fewest and most samples that a device of a type may hold, where there are bounds.
        rings: what communication took among which types, the newest last: a mixed ring is as slow
            as its slowest part. Where there is none, `communication` holds for all.
        layout: of the nodes of the cluster; None where it is not known.

    Raises:
        InputError: the batch is below 1.
    """

    batch: int
    lines: Mapping[str, Lines] = field(default_factory=dict)
    communication: Communication | None = None
    world_size: int = 1
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    rings: tuple[Ring, ...] = ()
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, but is {self.batch}")

    @classmethod
    def from_knowledge(
        cls,
        document: Mapping[str, Any] | None,
        batch: int,
        bounds: Mapping[str, tuple[int, int | None]] | None = None,
        layout: Layout | None = None,
    ) -> JobProfile:
        """Return the profile of a job that has learned `document` (`Knowledge.to_document`).

        Args:
            document: None where it has learned nothing yet.
            batch: total batch, samples a step.
            bounds, layout: as in the class.

        Raises:
            InputError: the document is not of that form.
        """
        if document is None:
            return cls(batch, bounds=bounds or {}, layout=layout)
        try:
            lines = {
                name: (Line(*forward), Line(*backward))
                for key, (forward, backward) in document["lines"].items()
                if (name := type_of(key)) is not None
            }
            rings = tuple(ring for ring in rings_of(document) if ring.devices > 1)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"the job's knowledge is malformed: {error!r}", hint="it is measured again"
            ) from error
        return cls(
            batch,
            lines,
            rings[-1].communication if rings else None,
            rings[-1].devices if rings else 1,
            bounds or {},
            rings,
            layout,
        )

    @classmethod
    def from_step(
        cls,
        device_type: str,
        seconds: float,
        batch: int,
        bounds: Mapping[str, tuple[int, int | None]] | None = None,
    ) -> JobProfile:
        """Return the profile of a job of which only one device's step is known.

        Two batches make a line; of one, `FIXED_SHARE` is taken not to grow with the batch, and
        `FORWARD_SHARE` to be the forward pass. The first fit replaces both.

        Args:
            device_type: what the device is.
            seconds: that its step took, with the whole batch.
            batch: total batch, samples a step.
            bounds: as in the class.
        """
        fixed, slope = FIXED_SHARE * seconds, (1 - FIXED_SHARE) * seconds / batch
        forward, backward = (
            Line(fixed * share, slope * share) for share in (FORWARD_SHARE, 1 - FORWARD_SHARE)
        )
        return cls(batch, {device_type: (forward, backward)}, bounds=bounds or {})

    @property
    def measured(self) -> frozenset[str]:
        """The types that the job has run on."""
        return frozenset(self.lines)

    def rates(
        self, types: Sequence[str], relative_speed: Mapping[str, float] | None = None
    ) -> ProfileRates | GuessedRates:
        """Return the job's rates over configurations of `types`.

        A type that was not measured has the lines of the measured type nearest in speed, scaled by
        the ratio of their speeds.

        Args:
            types: the names of the types, in the order of the configurations' columns.
            relative_speed: of one device by type (`relative_speeds`); 1 for an absent one.
        """
        speed = relative_speed or {}
        if not self.lines:
            return GuessedRates(self.batch, tuple(speed.get(name, 1.0) for name in types))
        return _remembered(self.batch, self.type_lines(types, speed))

    def type_lines(self, types: Sequence[str], relative_speed: Mapping[str, float]) -> TypeLines:
        """Return the lines of all `types`, measured or scaled.

        Raises:
            InputError: no type has been measured.
        """
        if not self.lines:
            raise InputError("nothing of the job has been measured", hint="let it run first")
        return TypeLines(
            tuple(types),
            tuple(self._lines_of(name, relative_speed) for name in types),
            tuple(self.bounds.get(name, (0, None)) for name in types),
            self.communication,
            self.world_size,
            self.rings,
            self.layout,
        )

    def _lines_of(self, name: str, relative_speed: Mapping[str, float]) -> Lines:
        if name in self.lines:
            return self.lines[name]
        own = relative_speed.get(name, 1.0)

        def distance(other: str) -> tuple[float, str]:
            ratio = relative_speed.get(other, 1.0) / own
            return max(ratio, 1 / ratio), other

        nearest = min(self.lines, key=distance)
        factor = relative_speed.get(nearest, 1.0) / own
        forward, backward = self.lines[nearest]
        return _scaled(forward, factor), _scaled(backward, factor)


@lru_cache(maxsize=2048)
def _remembered(batch: int, lines: TypeLines) -> ProfileRates:
    """Return the same rates for the same lines: what they were asked once need not be found again.

    From one decision to the next most jobs have learned nothing new.
    """
    return ProfileRates(batch, lines)


def _scaled(line: Line, factor: float) -> Line:
    return Line(line.fixed * factor, line.per_sample * factor, line.floor * factor)
