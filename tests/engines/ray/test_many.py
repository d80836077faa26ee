"""Many workers as Ray actors."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

import pytest

from staves.engines.agents import AgentEngine
from staves.testing._engine_job import Job
from tests.engines.agents.test_losses import having
from tests.engines.ray.cluster import nodes_of, ray_cluster
from tests.training.launch import ended

STUB = Path(__file__).parent / "stub.py"
ALL = 64


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
                names = {device.name for device in wanted}  # those that come later have later ranks
                patience = time.monotonic() + 600
                while set((status := job.status()).devices) != names or not status.generation:
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
