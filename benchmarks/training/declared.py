"""What is declared before a comparison: mixes, links, jitter, workloads, targets.

Not frozen yet, so that no figure of this benchmark counts: the reference batch of the first
workload was changed after a pilot had shown its noise scale. Learning rates and targets were picked
on plain DDP at the reference batch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.training import workloads
from staves.steptime import Communication, Device, Line, StepTimeModel, ring_share
from staves.training import Contention, VirtualTruth

MS = 1e-3

FITS = {
    "cifar10": {
        "a100": (0.0887 * MS, 28.4 * MS),
        "v100": (0.152 * MS, 82.5 * MS),
        "rtx6000": (0.246 * MS, 28.3 * MS),
    },
    "imagenet": {
        "a100": (0.768 * MS, 124 * MS),
        "v100": (1.241 * MS, 119 * MS),
        "rtx6000": (1.731 * MS, 121 * MS),
    },
    "bert": {
        "a100": (4.43 * MS, 119 * MS),
        "v100": (20.6 * MS, 104 * MS),
        "rtx6000": (21.4 * MS, 120 * MS),
    },
    "deepspeech2": {
        "a100": (13.5 * MS, 298 * MS),
        "v100": (11.7 * MS, 122 * MS),
        "rtx6000": (15.8 * MS, 182 * MS),
    },
    "ncf": {
        "a100": (0.0001 * MS, 9.3 * MS),
        "v100": (0.0029 * MS, 126 * MS),
        "rtx6000": (0.0001 * MS, 12.3 * MS),
    },
}
"""Seconds a sample and fixed seconds of a step's computing, by profile and device type: fits to the
single-GPU profiles published with Sia (SOSP '23)."""

FORWARD = 1 / 3
"""Share of the computing that is not the backward pass."""
LINK = 10e9 / 8
"""Bytes a second between any two devices: 10 Gbit/s Ethernet, a ring."""
BUCKET = 25 * 2**20
"""The most bytes of a gradient bucket, as DDP has it; buckets are equal, and evenly spread."""
JITTER = 0.04
PAUSE = 0.02
"""Seconds that any change of the split costs any system."""

DDP_BATCHES = (1, 2, 4, 8, 16)
"""Times the reference batch: the fixed batches that DDP is shown at, and at whose first and last
load balance alone is measured. Learning rates follow the rule of the adaptive systems."""
BALANCED_STEPS = 600
"""Steps for which load balance alone is timed, at a fixed batch."""
AVERAGED_OVER = 30.0
"""Reference steps of progress over which the evaluated weights are averaged, exponentially."""
EVALUATED_EVERY = 20
"""Reference batches of samples between two evaluations, which cost no virtual time."""
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Workload:
    """One task, timed by the profile of the paper's workload whose shape it has.

    `reference` is that of the original's own training recipe, `target` a held-out loss of the
    averaged weights, `most_samples` when a run that has not reached it is given up, in reference
    batches.
    """

    name: str
    make: Callable[[int, float], workloads.Task]
    profile: str
    gradient_bytes: int
    reference: int
    max_batch: int
    learning_rate: float
    target: float
    most_samples: int


@dataclass(frozen=True)
class Mix:
    """Devices as (type, speed): a speed divides the type's time a sample, and not what is fixed.

    `contended` holds (device, factor) for the whole run.
    """

    name: str
    devices: tuple[tuple[str, float], ...]
    contended: tuple[tuple[int, float], ...] = ()


WORKLOADS = (
    # 64 is that of PyTorch's own example of digits (pytorch/examples, mnist).
    Workload("images", workloads.images, "cifar10", 44_700_000, 64, 4096, 0.1, 0.72, 2500),
)

MIXES = (
    Mix("4:4:8", 4 * (("a100", 1.0),) + 4 * (("v100", 1.0),) + 8 * (("rtx6000", 1.0),)),
    Mix("1:0.45:0.2", (("a100", 1.0), ("a100", 0.45), ("a100", 0.2))),
    Mix("contended", 4 * (("a100", 1.0),), ((3, 3.0),)),
)


def truth(workload: Workload, mix: Mix) -> VirtualTruth:
    """Return how long steps of the workload take on the mix."""
    devices = []
    for place, (kind, speed) in enumerate(mix.devices):
        per_sample, fixed = FITS[workload.profile][kind]
        shares = FORWARD, 1 - FORWARD
        forward, backward = (Line(s * fixed, s * per_sample / speed) for s in shares)
        type_name = kind if speed == 1 else f"{kind} at {speed}"
        devices.append(Device(f"{kind}-{place}", type_name, forward, backward))
    buckets = -(-workload.gradient_bytes // BUCKET)
    seconds = float(ring_share(len(devices))) * workload.gradient_bytes / LINK / buckets
    communication = Communication(
        tuple((j + 1) / buckets for j in range(buckets)), (seconds,) * buckets
    )
    return VirtualTruth(
        StepTimeModel(tuple(devices), communication),
        JITTER,
        tuple(Contention(device, factor) for device, factor in mix.contended),
        PAUSE,
    )
