"""An engine for several nodes, all of which this machine plays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml

from staves.engines.agents import AgentEngine, SubprocessNodes

FOUR = "nodes: [{name: left, devices: {local-cpu: 2}}, {name: right, devices: {local-cpu: 2}}]"
EMULATED = """
types:
  emu: {emulate: {forward: {fixed: 1ms, per_sample: 0ms}, backward: {fixed: 1ms, per_sample: 0ms}}}
nodes: [{name: left, devices: {emu: 2}}, {name: right, devices: {emu: 2}}]
"""


def engine(
    home: Path,
    cluster: str = FOUR,
    holds: Literal["device", "group", "node"] = "node",
    interface: str | None = None,
    **options: Any,
) -> AgentEngine:
    """Return the engine; what its nodes keep is in `nodes` beside its home."""
    nodes = SubprocessNodes(
        cluster=yaml.safe_load(cluster), folder=str(folder(home)), holds=holds, **options
    )
    return AgentEngine(home, nodes, interface=interface)


def folder(home: Path) -> Path:
    """Return where its nodes keep what agents say, and are taken down."""
    return home.parent / "nodes"
