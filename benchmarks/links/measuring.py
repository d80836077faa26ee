"""Links are measured, jobs learn on one node, and are then measured on one node and on two."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.links.network import NODES, Network, joined
from benchmarks.mixed.judging import Measured, settled
from benchmarks.mixed.measuring import predicted
from benchmarks.mixed.training import Training
from staves.engines.agents import AgentEngine, SubprocessNodes
from staves.engines.links import Measurement, measure_links
from staves.errors import StavesError
from staves.estimation import JobProfile
from staves.hardware import MISSES_ALLOWED, Cluster, Device, Layout, pair_of

CLUSTER: Mapping[str, Any] = {
    "types": {
        "emu": {
            "emulate": {
                "forward": {"fixed": "40ms", "per_sample": "3ms"},
                "backward": {"fixed": "30ms", "per_sample": "6ms"},
            }
        }
    },
    "nodes": [{"name": name, "devices": {"emu": 2}} for name in NODES],
}
"""Two nodes of two emulated devices each. No link is declared: gradients go over the real wire."""

CASES: Sequence[tuple[int, int]] = ((256, 64), (448, 128), (448, 64), (448, 48))
"""Width of the model's six hidden layers, and samples a step. By the shaped speed, two nodes are
faster in the first two, and one node in the others."""

PLACES: Mapping[str, str] = {"one node": "2xemu", "two nodes": "4xemu"}

LEARNING = 30
"""Steps on one node by a split that was computed, from which the rest is foretold."""

AGAIN = 2
"""How often a case that is void is made again."""


def measure(megabits: float, cases: Sequence[tuple[int, int]], steps: int) -> dict[str, Any]:
    """Return the link as measured, and of each case what was predicted and measured.

    Args:
        megabits: a second, to which the link is shaped.
        cases: of `CASES`.
        steps: measured in each place.

    Raises:
        StavesError: the network cannot be made, the link not be measured, or a job has failed.
    """
    with joined(megabits) as network:
        _tell("the link")
        link, cluster = _link(network)
        found = []
        for width, batch in cases:
            void = 0
            while (case := _case(network, cluster, width, batch, steps))["void"] and void < AGAIN:
                void += 1
                _tell("void, since too many steps were late; again")
            found.append({**case, "void_runs": void})
    return {"shaped_bits_per_second": megabits * 1e6, "link": link, "cases": found}


def _link(network: Network) -> tuple[dict[str, Any], Cluster]:
    with _engine(network) as (engine, home):
        cluster = engine.cluster()
        (measured,) = measure_links(engine, _one_of_each(cluster), folder=home)
    if measured.link is None:
        raise StavesError(f"the link was not measured: {measured.problem}")
    return _link_document(measured), cluster.with_links({pair_of(*NODES): measured.link})


def _link_document(measured: Measurement) -> dict[str, Any]:
    assert measured.link is not None
    return {
        "bits_per_second": measured.link.bits_per_second,
        "latency_seconds": measured.link.latency,
        "samples": [list(sample) for sample in measured.samples],
        "load": os.getloadavg()[0],
    }


def _case(network: Network, cluster: Cluster, width: int, batch: int, steps: int) -> dict[str, Any]:
    left, right = ([d for d in cluster.devices() if d.node == name] for name in NODES)
    with _engine(network) as (engine, home):
        training = Training(home, engine, batch, width=width)
        try:
            _tell(f"width {width}, batch {batch}: learning on one node")
            training.start(left)
            training.steps(left, LEARNING)
            training.stop()
            learned = training.learned()
            measured: dict[str, Measured] = {}
            for place, devices in zip(PLACES, (right, [*left, *right]), strict=True):
                _tell(f"width {width}, batch {batch}: {place}")
                (training.resize if measured else training.start)(devices)
                measured[place] = settled(training.steps(devices, steps))
            training.stop()
            made, missed = training.missed
        finally:
            training.abandon()
    # As the service prices a job's configurations: with the link, and as if it were not known.
    profile, blind = (
        JobProfile.from_knowledge(learned, batch, layout=Layout.of(nodes))
        for nodes in (cluster, cluster.with_links({}))
    )
    places = {
        place: {
            "configuration": devices,
            "predicted_seconds": predicted(profile, devices),
            "without_link_seconds": predicted(blind, devices),
            **measured[place].document(),
        }
        for place, devices in PLACES.items()
    }
    return {
        "width": width,
        "batch": batch,
        "gradient_bytes": sum(profile.rings[-1].sizes),
        "one_node_ring_seconds": sum(profile.rings[-1].communication.seconds),
        "places": places,
        "deadlines": {"device_steps": made, "missed": missed},
        "void": missed > MISSES_ALLOWED * made,
        "load": os.getloadavg()[0],
    }


@contextmanager
def _engine(network: Network) -> Iterator[tuple[AgentEngine, Path]]:
    """Have an engine over the network, in a home of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        nodes = SubprocessNodes(
            cluster=CLUSTER,
            folder=str(Path(folder) / "nodes"),
            prefixes=network.prefixes,
            host=network.host,
        )
        yield AgentEngine(home, nodes), home


def _one_of_each(cluster: Cluster) -> dict[str, Device]:
    """Return the first device of each node."""
    return {device.node: device for device in reversed(cluster.devices())}


def _tell(what: str) -> None:
    print(f"benchmarks: links: {what} ...", file=sys.stderr, flush=True)
