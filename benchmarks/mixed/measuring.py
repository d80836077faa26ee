"""One cluster: the job learns on devices of one type, and is then measured on mixes of them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mixed.judging import Measured, by_type, settled
from benchmarks.mixed.training import Training
from staves.estimation import JobProfile
from staves.hardware import MISSES_ALLOWED, Cluster, Configuration, Layout, first_free, read_cluster
from staves.steptime import integer_split

CLUSTERS = Path(__file__).parent / "clusters"
MIXES: Mapping[str, Sequence[str]] = {
    "fast_on_fast": ("1xfast+1xslow", "2xfast+1xslow", "2xfast+2xslow", "1xfast+2xslow"),
    "fast_on_slow": ("1xfast+1xslow", "2xfast+1xslow", "2xfast+2xslow", "1xfast+2xslow"),
    "boxes": ("1xfast+1xslow", "2xfast+1xslow", "2xfast+2xslow"),
    "three_types": ("1xfast+1xmiddle", "1xfast+1xmiddle+1xslow", "2xfast+2xmiddle+2xslow"),
}
"""What is asked and measured on each cluster, each sharing devices with the one before."""

BATCH = 96
AGAIN = 2
"""How often a run that is void is made again."""

LEARNING = 40
"""Steps on each type by a split that was computed, before the next one."""


def measure(cluster: str, steps: int) -> dict[str, Any]:
    """Return what was predicted and measured of every mix of a cluster.

    A run that was void, since the machine was too busy, is made again; the last one counts.

    Args:
        cluster: its name in `MIXES`.
        steps: measured of each mix.
    """
    _tell(cluster, "one type after the other")
    whole, void = read_cluster(CLUSTERS / f"{cluster}.yaml"), 0
    while True:
        with tempfile.TemporaryDirectory() as home:
            training = Training(Path(home), whole, BATCH)
            try:
                found = _measured(cluster, whole, training, steps)
            finally:
                training.abandon()
        if not found["void"] or void == AGAIN:
            return {**found, "void_runs": void}
        void += 1
        _tell(cluster, "void, since too many steps were late; again")


def _measured(name: str, cluster: Cluster, training: Training, steps: int) -> dict[str, Any]:
    alone = {}
    for kind in cluster.configuration:
        pair = Configuration({kind: 2})
        devices = first_free(cluster, pair).devices
        training.start(devices)
        alone[str(pair)] = settled(training.steps(devices, LEARNING))
        training.stop()
    profile = profile_of(training.learned(), cluster)
    mixes = [Configuration.parse(text) for text in MIXES[name]]
    measured = {}
    for place, mix in enumerate(mixes):
        _tell(name, str(mix))
        devices = first_free(cluster, mix).devices
        (training.resize if place else training.start)(devices)
        rows = training.steps(devices, steps)
        measured[str(mix)] = settled(rows), rows
    training.stop()
    steps_made, missed = training.missed
    return {
        "links_bits_per_second": {
            kind: node.link_bits_per_second for node in cluster.nodes for kind in node.devices
        },
        "alone": {
            text: {"predicted_seconds": predicted(profile, text), **own.document()}
            for text, own in alone.items()
        },
        "mixes": {text: _mix(profile, text, own, rows) for text, (own, rows) in measured.items()},
        "deadlines": {"device_steps": steps_made, "missed": missed},
        "void": missed > MISSES_ALLOWED * steps_made,
    }


def profile_of(knowledge: Mapping[str, Any], cluster: Cluster) -> JobProfile:
    """Return the profile by which the service prices a job's configurations."""
    return JobProfile.from_knowledge(knowledge, BATCH, layout=Layout.of(cluster))


def predicted(profile: JobProfile, configuration: str) -> float:
    """Return the seconds of a step, by the rates that the service's policies see."""
    counts = Configuration.parse(configuration)
    types = sorted(profile.measured)
    row = np.array([[counts.count(kind) for kind in types]], dtype=np.int64)
    return float(profile.batch / profile.rates(types)(row)[0])


def _mix(
    profile: JobProfile, text: str, own: Measured, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    types = sorted(profile.measured)
    counts = Configuration.parse(text)
    model = profile.type_lines(types, {}).model(tuple(counts.count(kind) for kind in types))
    split = integer_split(model, profile.batch)
    # As before rings were told apart: all as the last one that was measured.
    last = replace(profile, rings=())
    return {
        "predicted_seconds": predicted(profile, text),
        "predicted_local_batches": by_type(
            zip([device.type for device in model.devices], split.local_batches, strict=True)
        ),
        "trainer_predicted_seconds": rows[0]["predicted_seconds"],
        "last_ring_seconds": predicted(last, text),
        **own.document(),
    }


def _tell(cluster: str, what: str) -> None:
    print(f"benchmarks: {cluster}: {what} ...", file=sys.stderr, flush=True)
