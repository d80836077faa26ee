from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.required import needed
from tests.engines.slurm.cluster import GRES
from tests.engines.slurm.daemons import PROGRAMS, SlurmDaemons, installed


@pytest.fixture(scope="session")
def slurm_daemons() -> Iterator[SlurmDaemons]:
    """Slurm's daemons, for all tests of this process."""
    needed(f"Slurm ({', '.join(PROGRAMS)})", installed())
    daemons = SlurmDaemons(GRES)
    yield daemons
    daemons.close()


@pytest.fixture
def slurm(slurm_daemons: SlurmDaemons, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmDaemons]:
    """The Slurm cluster that commands find; its nodes are up, and nothing runs on it."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_daemons.conf))
    yield slurm_daemons
    slurm_daemons.tidy()
