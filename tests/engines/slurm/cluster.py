"""A Slurm cluster for tests, and an engine on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from staves.engines.agents import AgentEngine
from staves.engines.slurm import SlurmNodes

GRES = {"n0": "gpu:emu:2", "n1": "gpu:emu:2", "n2": "gpu:emu:1", "n3": "gpu:slow:1"}
CLUSTER = """
types:
  emu: {emulate: {forward: {fixed: 1ms, per_sample: 0ms}, backward: {fixed: 1ms, per_sample: 0ms}}}
  slow: {emulate: {forward: {fixed: 2ms, per_sample: 0ms}, backward: {fixed: 2ms, per_sample: 0ms}}}
nodes:
  - {name: n0, devices: {emu: 2}}
  - {name: n1, devices: {emu: 2}}
  - {name: n2, devices: {emu: 1}}
  - {name: n3, devices: {slow: 1}}
"""


def nodes(home: Path, cluster: str = CLUSTER, **options: Any) -> SlurmNodes:
    """Return the nodes as the engine of that home has them."""
    return SlurmNodes(folder=str(home / "slurm"), cluster=yaml.safe_load(cluster), **options)


def engine(home: Path, cluster: str = CLUSTER, **options: Any) -> AgentEngine:
    """Return an engine of that home."""
    return AgentEngine(home, nodes(home, cluster, **options), interface="lo")
