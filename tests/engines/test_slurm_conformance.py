"""The conformance suites on Slurm: a real cluster of four nodes, all on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from staves.engines._base import Engine
from staves.testing import EngineConformance
from tests.engines.slurm.cluster import engine

pytestmark = pytest.mark.usefixtures("slurm")


class TestSlurmConformance(EngineConformance):
    """A Slurm job for each device."""

    def make(self, home: Path) -> Engine:
        return engine(home)
