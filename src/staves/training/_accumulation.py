"""Step times under accumulation. Pure: no torch, no clock.

With A micro-steps a device computes A forward passes and A backward passes of b / A samples, and
only the last backward pass overlaps with communication. In the terms of the step-time model, with
the lines f of one forward pass and p of one backward pass,

    forward(b) = A f(b / A) + (A - 1) p(b / A),    backward(b) = p(b / A).

What is measured is turned back into single passes before it is fitted, so that one pair of lines
serves any number of micro-steps.
"""

from __future__ import annotations

from dataclasses import replace

from staves.steptime import Device, Line, StepTimeModel
from staves.training._timing import StepRecord


def accumulated(model: StepTimeModel, micro_steps: int) -> StepTimeModel:
    """Return the model of whole steps of so many micro-steps, from that of single ones.

    Floors add up, which is exact where the two of them hold at the same batches.
    """
    if micro_steps == 1:
        return model
    devices = tuple(_accumulated(device, micro_steps) for device in model.devices)
    return StepTimeModel(devices, model.communication)


def single(record: StepRecord) -> StepRecord:
    """Return the record as if the step had been one of its micro-steps."""
    n = record.micro_steps
    if n == 1:
        return record
    forward = max(0.0, record.forward - (n - 1) * record.backward) / n
    return replace(
        record,
        samples=record.samples / n,
        forward=forward,
        step_seconds=forward + record.backward,
        micro_steps=1,
    )


def _accumulated(device: Device, n: int) -> Device:
    forward, backward = device.forward, device.backward
    return replace(
        device,
        forward=Line(
            n * forward.fixed + (n - 1) * backward.fixed,
            forward.per_sample + (n - 1) / n * backward.per_sample,
            n * forward.floor + (n - 1) * backward.floor,
        ),
        backward=Line(backward.fixed, backward.per_sample / n, backward.floor),
        max_batch=None if device.max_batch is None else device.max_batch * n,
    )
