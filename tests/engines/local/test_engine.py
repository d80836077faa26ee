"""The local engine: what every engine does, and what its detached supervisors promise."""

from __future__ import annotations

from pathlib import Path

from staves.engines._base import Engine
from staves.engines.local import LocalEngine
from staves.hardware import parse_cluster
from staves.testing import EngineConformance

CLUSTER = "nodes: [{name: box, devices: {local-cpu: 4}}]"


class TestLocalEngine(EngineConformance):
    def make(self, home: Path) -> Engine:
        return LocalEngine(home, parse_cluster(CLUSTER))
