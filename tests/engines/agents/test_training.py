"""What agents carry out is what the local engine does: same results, devices given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from staves.engines._base import Ended, Engine
from staves.engines.local import LocalEngine
from staves.hardware import parse_cluster
from staves.testing._engine_job import Job
from tests.engines.agents.several import EMULATED, FOUR, engine
from tests.engines.agents.test_losses import having, read


def trained(make: Callable[[], Engine], folder: Path) -> Ended:
    job = Job(make, folder)
    try:
        job.train(job.devices[:3])
        job.allow(None)
        done = job.end().ended
        assert done is not None
        assert done.end == "finished", job.log()
        job.prove()
        return done
    finally:
        job.abandon()


def test_results_are_those_of_the_local_engine(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    far.mkdir()
    expected = trained(lambda: LocalEngine(near / "home", parse_cluster(FOUR)), near / "work")
    found = trained(lambda: engine(far / "home"), far / "work")
    assert found.figures["samples"] == expected.figures["samples"] == 1800
    for which in ("first", "last"):
        loss = expected.figures["loss"][which]
        assert found.figures["loss"][which] == pytest.approx(loss, rel=1e-4)


def test_a_device_is_given_back_when_its_worker_has_gone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    job = Job(lambda: engine(home, EMULATED, holds="device"), tmp_path / "work")

    def held() -> set[str]:
        """Return the agents there are: each is a keeper and the agent itself."""
        lines = [read(pid, "cmdline") for pid in having(f"STAVES_HOME={home}")]
        words = [line.decode().split("\0") for line in lines if b"--agent" in line]
        return {each[each.index("--agent") + 1] for each in words}

    try:
        job.train(job.devices[:2])
        job.until_on(job.devices[:2])
        assert held() == {"job-1-1-1", "job-1-1-2"}
        job.resize(job.devices[1:4], request=1)
        job.until_on(job.devices[1:4])
        job.until(lambda _: held() == {f"job-1-1-{n}" for n in (2, 3, 4)}, "growth", crawl=True)
        job.resize(job.devices[3:4], request=2)
        job.until_on(job.devices[3:4])
        job.until(lambda _: held() == {"job-1-1-4"}, "the others to be given back", crawl=True)
        job.stop(save=True)
        job.end(crawl=True)
        assert held() == set()
    finally:
        job.abandon()
