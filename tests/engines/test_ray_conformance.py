"""The conformance suite on Ray: a head and three nodes, an actor for each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from staves.engines._base import Engine
from staves.engines.agents import AgentEngine
from staves.engines.ray import RayNodes
from staves.testing import EngineConformance
from tests.engines.ray.cluster import nodes_of, shared


@pytest.fixture(scope="module")
def nodes(pytestconfig: pytest.Config) -> Iterator[RayNodes]:
    with nodes_of(shared(pytestconfig)) as found:
        yield found


class TestRayConformance(EngineConformance):
    @pytest.fixture(autouse=True)
    def _have(self, nodes: RayNodes) -> None:
        self._nodes = nodes

    def make(self, home: Path) -> Engine:
        return AgentEngine(home, self._nodes)
