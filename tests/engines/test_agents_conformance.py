"""The conformance suite on agents: several hosts that are played by one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from staves.engines._base import Engine
from staves.testing import EngineConformance
from tests.engines.agents.several import EMULATED, engine

pytestmark = pytest.mark.soak  # minutes of processes that start and end


class TestAgentsConformance(EngineConformance):
    """An agent for each node, and workers that are forked there."""

    def make(self, home: Path) -> Engine:
        return engine(home, EMULATED)


class TestAgentsOfOneDeviceConformance(EngineConformance):
    """An agent for each device, started and ended as devices come and go."""

    def make(self, home: Path) -> Engine:
        return engine(home, holds="device")
