"""Many workers as Ray actors; and what a change of devices costs beside the local engine."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from staves.engines._base import Engine, Status
from staves.engines.agents import AgentEngine
from staves.engines.local import LocalEngine
from staves.hardware import Device, parse_cluster
from staves.testing._engine_job import SCRIPT, Job
from tests.engines.agents.test_losses import having
from tests.engines.ray.cluster import FILE, nodes_of, ray_cluster, shared
from tests.training.launch import ended

STUB = Path(__file__).parent / "stub.py"
ALL = 64
_CHANGES = 8  # of one job


@pytest.mark.parametrize(
    "count", [6, pytest.param(ALL, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_stub_workers_are_launched_resized_and_stopped(tmp_path: Path, count: int) -> None:
    home, each = tmp_path / "home", (count + 3) // 4
    resources = {f"node-{n}": {"emu": each} for n in range(4)}
    took: dict[str, float] = {}
    with ray_cluster(resources) as cluster, nodes_of(cluster, pending_within=600.0) as nodes:
        job = Job(lambda: AgentEngine(home, nodes), tmp_path / "work")
        devices, half = job.devices[:count], count // 2
        try:
            began = time.monotonic()
            job.launch(
                f"exec {shlex.quote(sys.executable)} {shlex.quote(str(STUB))}",
                devices[:half],
                environ={"STAVES_FORK": "0"},
            )
            for request, (what, wanted) in enumerate(
                [
                    ("launch", devices[:half]),
                    ("grow", devices),
                    ("shrink", devices[-half // 2 :]),
                    ("move", devices[: half // 2]),
                ]
            ):
                if request:
                    began = time.monotonic()
                    job.resize(wanted, request)
                names = tuple(device.name for device in wanted)
                patience = time.monotonic() + 600
                while (status := job.status()).devices != names or not status.generation:
                    assert time.monotonic() < patience, status
                    assert status.phase in ("starting", "running"), job.log()
                    time.sleep(0.05)
                took[what] = round(time.monotonic() - began, 1)
            began = time.monotonic()
            job.stop(save=False)
            assert job.end().ended is not None
            took["stop"] = round(time.monotonic() - began, 1)
            assert all(ended(pid, timeout=60) for pid in having(f"STAVES_HOME={home}"))
        finally:
            job.abandon()
    print(json.dumps({"workers": count, "seconds": took}))


@pytest.mark.soak
def test_what_a_change_costs(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """In turns on both engines, so that both meet the same load."""
    with nodes_of(shared(pytestconfig)) as nodes:
        file = parse_cluster(json.dumps({**FILE, "nodes": [{"devices": {"emu": 4}}]}))
        engines: dict[str, Callable[[Path], Engine]] = {
            "local": lambda home: LocalEngine(home, file),
            "ray": lambda home: AgentEngine(home, nodes),
        }
        pauses: dict[str, dict[str, list[float]]] = {
            name: {"grow": [], "shrink": []} for name in engines
        }
        for turn in range(2):
            for name, make in engines.items():
                folder = tmp_path / f"{name}-{turn}"
                folder.mkdir()
                for kind, seconds in _pauses(make, folder):
                    pauses[name][kind].append(seconds)
    medians = {
        name: {kind: round(statistics.median(found), 4) for kind, found in kinds.items()}
        for name, kinds in pauses.items()
    }
    print(json.dumps({"pause_seconds": medians, "each": len(pauses["ray"]["grow"])}))


def _pauses(make: Callable[[Path], Engine], folder: Path) -> list[tuple[str, float]]:
    """Grow and shrink a job whose steps come as fast as they can."""
    job = Job(lambda: make(folder / "home"), folder / "work")
    (job.folder / "free.py").write_text(SCRIPT.replace("run.epochs(30)", "run.epochs(10**6)"))
    found: list[tuple[str, float]] = []

    def until_on(devices: Sequence[Device]) -> Status:
        names = tuple(device.name for device in devices)
        trained = f"steps of {names}"
        return job.until(
            lambda s: s.devices == names and bool(s.spans and s.spans[-1]["steps"] > 50), trained
        )

    try:
        job.launch(f"exec {shlex.quote(sys.executable)} free.py .", job.devices[:2])
        until_on(job.devices[:2])
        for request in range(1, 1 + _CHANGES):
            wanted = job.devices[: 2 + request % 2]
            job.resize(wanted, request)
            span = until_on(wanted).spans[-1]
            found.append(("grow" if request % 2 else "shrink", float(span["pause_seconds"])))
        return found
    finally:
        job.abandon()
