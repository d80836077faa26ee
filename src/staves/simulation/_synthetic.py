"""The product's own applications: step times from public figures of devices, no outside files.

A step is computed at a fixed share of the device's peak, and a ring carries the gradients: the
step-time model of `staves.steptime` with one bucket that is ready at the end. These are not
measurements; results hold for comparing policies, not for predicting a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.hardware import KNOWN_TYPES, peak_teraflops
from staves.simulation._application import Application, Statistics
from staves.simulation._curves import Curve, StepTable
from staves.steptime import Communication, Device, Line, StepTimeModel

Array = NDArray[np.float64]

_UTILISATION = 0.4  # of the peak, in a training step
_FORWARD_SHARE = 1 / 3  # a backward pass costs two forward passes
_LAUNCH_SECONDS = 0.01  # of a step, whatever its batch
_LINK = {True: 10e9, False: 1.2e9}  # bytes a second in a node (PCIe 3), and between (10 Gbit)
_MOST_NODES, _NODE_SIZE = 16, 8


@dataclass(frozen=True)
class _Kind:
    """What a synthetic application is made of.

    Args:
        gigaflop: of one sample, forward and backward.
        parameters: of the model.
        sample_bytes: memory that one sample takes in training.
        reference, largest: batches.
        epochs, steps: epochs, and reference steps in each.
        noise: noise scale at the beginning and at the end, samples.
        pause: of a restart, seconds.
    """

    gigaflop: float
    parameters: float
    sample_bytes: float
    reference: int
    largest: int
    epochs: int
    steps: int
    noise: tuple[float, float]
    pause: float


_KINDS = {
    "image-small": _Kind(1.7, 11e6, 12e6, 128, 4096, 60, 390, (400, 6000), 30.0),
    "image-large": _Kind(12.3, 26e6, 90e6, 256, 8192, 60, 2500, (2000, 40000), 120.0),
    "language": _Kind(180.0, 110e6, 600e6, 16, 512, 3, 6000, (60, 900), 60.0),
    "speech": _Kind(40.0, 38e6, 180e6, 32, 1024, 40, 400, (100, 2500), 30.0),
    "recommendation": _Kind(0.05, 30e6, 0.2e6, 1024, 32768, 10, 5000, (8000, 60000), 15.0),
}


def synthetic_applications(types: Iterable[str]) -> dict[str, Application]:
    """Return the applications by name, with step times on each of `types`.

    Raises:
        InputError: nothing public is known of a type.
    """
    names = list(types)
    for name in names:
        if peak_teraflops(name) is None:
            known = [other for other in KNOWN_TYPES if peak_teraflops(other)]
            raise InputError(
                f"no public figures of the device type {quoted(name)}",
                hint=f"{suggestion(name, known)}; or give --profiles",
            )
    return {
        kind_name: Application(
            kind_name,
            {name: _table(kind, name) for name in names},
            _statistics(kind),
            kind.pause,
        )
        for kind_name, kind in _KINDS.items()
    }


def _table(kind: _Kind, device_type: str) -> StepTable:
    memory = KNOWN_TYPES[device_type].memory_bytes or 16 * 10**9
    room = memory - 16 * kind.parameters  # weights, gradients and two moments, 4 bytes each
    largest = min(kind.largest, int(room / kind.sample_bytes))
    if largest < 1:
        raise InputError(f"a {device_type} does not hold one sample", hint="give --profiles")
    smallest = max(1, min(kind.reference // 16, largest))
    batch = np.unique(np.geomspace(smallest, largest, 12).round())
    compute = _compute_seconds(kind, device_type, batch)
    shapes = {}
    for nodes in range(1, _MOST_NODES + 1):
        for devices in range(nodes, nodes * _NODE_SIZE + 1):
            sync = 2 * (devices - 1) / devices * 4 * kind.parameters / _LINK[nodes == 1]
            shapes[nodes, devices] = Curve(batch, compute + sync, np.full(len(batch), sync))
    return StepTable({}, shapes)


def _compute_seconds(kind: _Kind, name: str, batch: Array) -> Array:
    """Return the step-time model's step of one device alone, at each local batch."""
    peak = peak_teraflops(name)
    assert peak is not None, "checked where all types are"
    per_sample = kind.gigaflop * 1e9 / (peak * 1e12 * _UTILISATION)
    forward = Line(_LAUNCH_SECONDS * _FORWARD_SHARE, per_sample * _FORWARD_SHARE)
    backward = Line(_LAUNCH_SECONDS * (1 - _FORWARD_SHARE), per_sample * (1 - _FORWARD_SHARE))
    model = StepTimeModel((Device("one", name, forward, backward),), Communication((1.0,), (0.0,)))
    return np.array([model.step_seconds([int(local)]) for local in batch])


def _statistics(kind: _Kind) -> Statistics:
    batches = np.array(
        [kind.reference * 2**k for k in range(int(math.log2(kind.largest / kind.reference)) + 1)],
        dtype=np.float64,
    )
    noise = np.geomspace(*kind.noise, kind.epochs) / kind.reference
    return Statistics(
        batches,
        kind.steps * np.arange(1.0, kind.epochs + 1),
        np.ones((kind.epochs, len(batches))),
        np.repeat(noise[:, None], len(batches), axis=1),
    )
