"""What to expect of devices before a run measures them: by declared durations, or by an earlier
run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from staves.errors import InputError
from staves.hardware import Device, DeviceProfile, Link

if TYPE_CHECKING:
    from staves.steptime import Line, Ring, StepTimeModel


def declared_lines(profile: DeviceProfile) -> tuple[Line, Line]:
    """Return the forward and the backward line of an emulated device."""
    from staves.steptime import Line

    forward, backward = (
        Line(pace.fixed, pace.per_sample, pace.floor)
        for pace in (profile.forward, profile.backward)
    )
    return forward, backward


def declared_model(devices: Sequence[Device]) -> StepTimeModel | None:
    """Return the model of emulated devices without communication; None where one is real."""
    lines = {}
    for device in devices:
        if device.type.profile is None:
            return None
        lines[device.name] = declared_lines(device.type.profile)
    return _model(lines, devices, ())


def known_model(knowledge: Mapping[str, Any], devices: Sequence[Device]) -> StepTimeModel | None:
    """Return the model of devices from what a job has learned; None where one is not known.

    Args:
        knowledge: as rank 0 tells it.
        devices: whose model it is; each by its own name, or else by its type.

    Raises:
        InputError: the knowledge is malformed.
    """
    from staves.estimation import JobProfile
    from staves.steptime import Line

    profile = JobProfile.from_knowledge(knowledge, batch=1)
    lines = {}
    for device in devices:
        own = knowledge["lines"].get(device.name)
        pair = tuple(Line(*each) for each in own) if own else profile.lines.get(device.type.name)
        if pair is None:
            return None
        lines[device.name] = (pair[0], pair[1])
    # One device alone shares nothing; of more, what two or more have shared tells.
    if len(devices) > 1 and profile.communication is None:
        return None
    return _model(lines, devices, profile.rings)


def _model(
    lines: Mapping[str, tuple[Line, Line]], devices: Sequence[Device], rings: Sequence[Ring]
) -> StepTimeModel:
    from staves.steptime import FREE, StepTimeModel, ring_to_expect
    from staves.steptime import Device as TimedDevice

    types, nodes = {d.type.name for d in devices}, {d.node for d in devices}
    declared = [d.link_bits_per_second for d in devices if d.link_bits_per_second is not None]
    slowest = Link(min(declared)) if declared else None
    ring = ring_to_expect(rings, types, across=len(nodes) > 1, link=slowest)
    communication = FREE if ring is None or len(devices) < 2 else ring.of(len(devices))
    timed = []
    for device in devices:
        bounds = device.type.profile
        least, most = (0, None) if bounds is None else (bounds.min_batch, bounds.max_batch)
        timed.append(TimedDevice(device.name, device.type.name, *lines[device.name], least, most))
    return StepTimeModel(tuple(timed), communication)


def expectation(model: StepTimeModel, batch: int) -> str | None:
    """Say which split of the batch to expect and what it gains; None where none can hold it."""
    from staves.steptime import even_split, integer_split

    try:
        split, even = integer_split(model, batch), even_split(model, batch)
    except InputError:  # gradients will be accumulated
        return None
    gain = even.step_seconds / split.step_seconds if split.step_seconds > 0 else 1.0
    return (
        f"split {','.join(map(str, split.local_batches))}: step {split.step_seconds * 1e3:.1f} ms,"
        f" even split {even.step_seconds * 1e3:.1f} ms: {gain:.2f} x as fast"
    )
