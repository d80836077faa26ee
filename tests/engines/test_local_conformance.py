"""The conformance suite on the local engine."""

from __future__ import annotations

from pathlib import Path

from staves.engines._base import Engine
from staves.engines.local import LocalEngine
from staves.hardware import parse_cluster
from staves.testing import EngineConformance

CLUSTER = "nodes: [{name: box, devices: {local-cpu: 4}}]"
EMULATED = """
types:
  emu: {emulate: {forward: {fixed: 1ms, per_sample: 0ms}, backward: {fixed: 1ms, per_sample: 0ms}}}
nodes: [{name: box, devices: {emu: 4}}]
"""


class TestLocalEngine(EngineConformance):
    def make(self, home: Path) -> Engine:
        return LocalEngine(home, parse_cluster(CLUSTER))


class TestForkedWorkers(EngineConformance):
    """The same on emulated devices, where workers that train with staves are forked."""

    def make(self, home: Path) -> Engine:
        return LocalEngine(home, parse_cluster(EMULATED))
