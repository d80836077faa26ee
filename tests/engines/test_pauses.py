"""In-place growth and shrink cost about as much on every engine: printed, on a quiet machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from staves.engines.agents import AgentEngine
from staves.engines.local import LocalEngine
from staves.hardware import Cluster, parse_cluster
from tests.engines.agents import several
from tests.engines.pauses import pauses
from tests.engines.ray.cluster import FILE, nodes_of, shared
from tests.engines.slurm import cluster as slurm_cluster
from tests.engines.slurm.daemons import SlurmDaemons

pytestmark = pytest.mark.soak


def here(types: object) -> Cluster:
    """Return four of the emulated devices on this machine."""
    return parse_cluster(json.dumps({"types": types, "nodes": [{"devices": {"emu": 4}}]}))


def told(engine: str, found: object) -> None:
    print(json.dumps({"beside": engine, "pause_seconds": found}))


def test_agents(tmp_path: Path) -> None:
    engines = {
        "local": lambda home: LocalEngine(home, here(FILE["types"])),
        "agents": lambda home: several.engine(home, several.EMULATED),
    }
    told("agents", pauses(engines, tmp_path))


def test_ray(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    with nodes_of(shared(pytestconfig)) as nodes:
        engines = {
            "local": lambda home: LocalEngine(home, here(FILE["types"])),
            "ray": lambda home: AgentEngine(home, nodes),
        }
        told("ray", pauses(engines, tmp_path))


def test_slurm(slurm: SlurmDaemons, tmp_path: Path) -> None:
    engines = {
        "local": lambda home: LocalEngine(home, here(FILE["types"])),
        "slurm": slurm_cluster.engine,
    }
    told("slurm", pauses(engines, tmp_path))
