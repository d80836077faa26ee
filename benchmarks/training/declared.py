"""What is declared before a comparison: mixes, links, jitter, workloads, targets.

Frozen: `frozen.py` has the date and the seal. Learning rates and targets were picked on plain DDP
at the reference batch alone, on a seed that is not compared (`choosing.py`): of two rates, two or
three times apart, the smaller unless it needs over a tenth more steps to the target. In the same
runs the noise of the tasks' data was set, for a critical batch of about ten reference batches or
more ("pictures": three), which is still below the originals'. The reference batch of "images" is
the smaller of two published ones (64 of PyTorch's digits, 128 of the CIFAR-10 whose times it has):
that favours adaptive batches.

Declared anew once, after a first matrix (seeds 0 to 4). It gave runs up after 4,000 reference
batches of samples, which are 62 steps of the largest batch: too few for plain DDP even, on "images"
with three seeds of five; and there most of the adaptive runs on 4:4:8, the oracle's too, ended. DDP
was tried at three batches only. The seeds are fresh; nothing else that is declared was changed.
"""

from __future__ import annotations

from collections import Counter
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

DDP_BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Times the reference batch: the fixed batches that DDP is shown at, all of which every workload
allows. Learning rates follow the rule of the adaptive systems."""
BALANCED_BATCHES = (1, 8, 64)
"""Those of them at which load balance alone is measured: adaptive batches grow to about 8 on mix
(ii), and to up to 64 on mix (i)."""
BALANCED_STEPS = 400
"""Steps for which load balance alone is timed, at a fixed batch."""
AVERAGED_OVER = 30.0
"""Reference steps of progress over which the evaluated weights are averaged, exponentially."""
EVALUATED_EVERY = 40
"""Reference batches of samples between two evaluations, which cost no virtual time."""
GIVEN_UP_AFTER = 400
"""Steps of the largest batch: a run that has taken as many samples without reaching its target is
given up. Three times what plain DDP needs at that batch: on seeds that are not compared 54 to 80
for "images", 73 for "language", 124 to 135 for "speech"."""
SEEDS = (5, 6, 7, 8, 9)
"""Others than those by which anything here was picked."""


@dataclass(frozen=True)
class Workload:
    """One task, timed by the profile of the paper's workload whose shape it has.

    Args:
        name, make: of the task.
        profile, gradient_bytes: of the original, which say how long steps take.
        reference: B0 in samples, of the original's own recipe, as `source` says.
        max_batch: 64 or 128 times as much.
        learning_rate, target: picked on plain DDP at B0; the target is a held-out loss of the
            averaged weights.
        critical_of_original: the original's noise scale in reference batches, the median over the
            epochs of its published profile at its base batch (grad_var / grad_sqr).
        most_steps: see GIVEN_UP_AFTER.
    """

    name: str
    make: Callable[[int, float], workloads.Task]
    profile: str
    gradient_bytes: int
    reference: int
    max_batch: int
    learning_rate: float
    target: float
    source: str
    critical_of_original: float
    most_steps: int = GIVEN_UP_AFTER

    @property
    def most_samples(self) -> int:
        """After how many samples a run that has not reached the target is given up."""
        return self.most_steps * self.max_batch


@dataclass(frozen=True)
class Mix:
    """Devices as (type, speed): a speed divides the type's time a sample, and not what is fixed.

    `contended` holds (device, factor) for the whole run.
    """

    name: str
    devices: tuple[tuple[str, float], ...]
    contended: tuple[tuple[int, float], ...] = ()

    def describe(self) -> str:
        """Return it for people."""
        kinds = Counter(
            kind if speed == 1 else f"{kind} at {speed}" for kind, speed in self.devices
        )
        slow = "".join(f", device {d} at a {factor:g}th" for d, factor in self.contended)
        return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) + slow


WORKLOADS = (
    Workload(
        "images",
        workloads.images,
        "cifar10",
        44_700_000,
        reference=64,
        max_batch=4096,
        learning_rate=0.02,
        target=2.268,
        source="the digits of PyTorch's own examples (pytorch/examples, mnist)",
        critical_of_original=38,
    ),
    Workload(
        "language",
        workloads.language,
        "bert",
        438_000_000,
        reference=32,
        max_batch=2048,
        learning_rate=6e-3,
        target=3.085,
        source="BERT on SQuAD (Devlin et al., 2019, 4.2)",
        critical_of_original=35,
    ),
    Workload(
        "speech",
        workloads.speech,
        "deepspeech2",
        164_000_000,
        reference=20,
        max_batch=1280,
        learning_rate=8e-3,
        target=0.955,
        source="deepspeech.pytorch, the default of its train.py",
        critical_of_original=1061,
    ),
    Workload(
        "pictures",
        workloads.pictures,
        "imagenet",
        102_000_000,
        reference=256,
        max_batch=16384,
        learning_rate=0.03,
        target=2.22,
        source="ResNet on ImageNet (He et al., 2016, 3.4)",
        critical_of_original=57,
    ),
    Workload(
        "recommendation",
        workloads.recommendation,
        "ncf",
        4_800_000,
        reference=256,
        max_batch=32768,
        learning_rate=3e-3,
        target=0.52,
        source="NeuMF, the default of its authors' NeuMF.py (He et al., 2017)",
        critical_of_original=29258,
    ),
)

MIXES = (
    Mix("4:4:8", 4 * (("a100", 1.0),) + 4 * (("v100", 1.0),) + 8 * (("rtx6000", 1.0),)),
    Mix("1:0.45:0.2", (("a100", 1.0), ("a100", 0.45), ("a100", 0.2))),
    Mix("contended", 4 * (("a100", 1.0),), ((3, 3.0),)),
)

CORE_WORKLOADS = ("images", "language", "speech")
CORE_MIXES = ("4:4:8", "1:0.45:0.2")
"""What `python -m benchmarks.training` runs; `--full` runs all workloads and mixes."""


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
