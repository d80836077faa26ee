"""The demo, as it stands, on Ray: `python -m examples.demo --engine ray`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import staves
from staves.hardware import read_cluster
from tests.engines.ray.cluster import ray_cluster

ROOT = Path(__file__).parents[3]


def demo(folder: Path, *options: str) -> dict[str, Any]:
    paths = [str(ROOT), str(Path(staves.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-m", "examples.demo", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        check=True,
    )
    summary: dict[str, Any] = json.loads((folder / "demo" / "summary.json").read_text())
    return summary


@pytest.mark.soak
def test_its_jobs_run_through_four_raylets_as_they_do_here(tmp_path: Path) -> None:
    cluster = read_cluster(ROOT / "examples" / "demo" / "cluster.yaml")
    resources = {
        node.name: {name: float(count) for name, count in node.devices.items()}
        for node in cluster.nodes
    }
    with ray_cluster(resources) as ray:
        there = demo(tmp_path / "ray", "--engine=ray", f"--address={ray.address}")
    here = demo(tmp_path / "local")
    for ours, theirs in zip(there["jobs"], here["jobs"], strict=True):
        print(json.dumps({"ray": ours, "local": theirs}))
        assert (ours["name"], ours["state"]) == (theirs["name"], "finished")
        # That of the first epoch is told by the last attempt: one that was saved began later.
        assert ours["loss"]["last"] == pytest.approx(theirs["loss"]["last"], rel=0.05)
    assert any(job["mixed"] for job in there["jobs"])
