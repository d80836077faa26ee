from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.engines.required import needed
from tests.engines.slurm.cluster import GRES
from tests.engines.slurm.daemons import PROGRAMS, SlurmDaemons, installed


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark what has a cluster: that of Ray is started once, and that of Slurm once."""
    for item in items:
        for name in ("ray", "slurm"):
            if item.path.parent.name == name or item.path.name.startswith(f"test_{name}_"):
                item.add_marker("cluster")
                item.add_marker(pytest.mark.xdist_group(name))


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
