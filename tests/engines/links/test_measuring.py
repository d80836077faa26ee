"""Jobs that measure links: what they find, and what becomes of those that do not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from staves.engines._base import Ended, Engine, Launch, Status
from staves.engines.links import Measurement, measure_links
from staves.engines.local import LocalEngine
from staves.errors import StavesError
from staves.hardware import Cluster, Device, Link, parse_cluster


def cluster_of(*names: str) -> Cluster:
    return parse_cluster(
        json.dumps({"nodes": [{"name": name, "devices": {"local-cpu": 1}} for name in names]})
    )


def first(cluster: Cluster) -> dict[str, Device]:
    return {device.node: device for device in cluster.devices()}


class Pretended(Engine):
    """Jobs that are over at once, as they were told to be by the pair of their nodes."""

    name = "pretended"

    def __init__(self, ends: dict[str, str]) -> None:
        self.ends, self.launched = ends, dict[str, Launch]()
        self.running: set[str] = set()
        self.together: list[int] = []
        self.stopped: list[str] = []

    def cluster(self) -> Cluster:
        raise NotImplementedError

    def resize(self, job: str, attempt: int, devices: Sequence[Device], request: int) -> None:
        raise NotImplementedError

    def logs(self, job: str, attempt: int) -> dict[str, Path]:
        raise NotImplementedError

    def launch(self, launch: Launch) -> None:
        if self._end(launch) == "refused":
            raise StavesError("no such device here")
        self.launched[launch.job] = launch
        self.running.add(launch.job)
        assert launch.devices[0].node != launch.devices[1].node
        assert launch.minimum == 2

    def stop(self, job: str, attempt: int, *, save: bool, grace: float) -> None:
        self.stopped.append(job)
        self.running.discard(job)

    def status(self, job: str, attempt: int) -> Status:
        if job not in self.launched:
            return Status("absent")
        if job not in self.running:
            return Status("ended", ended=Ended("stopped"))
        launch = self.launched[job]
        end = self._end(launch)
        if end == "waits":
            return Status("starting", pending="the queue is long")
        if end == "lost":
            return Status("lost")
        self.together.append(len(self.running))
        if end == "failed":
            return Status("ended", ended=Ended("failed", "rank 1 has died"))
        if end != "silent":
            words = shlex.split(launch.command)
            (result,) = [w.partition("=")[2] for w in words if w.startswith("--result=")]
            Path(result).write_text(end)
        return Status("ended", ended=Ended("finished"))

    def _end(self, launch: Launch) -> str:
        return self.ends["".join(sorted(device.node for device in launch.devices))]


GOOD = json.dumps([[1000, 0.001], [4000, 0.004]])


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        ("refused", "no such device here"),
        ("failed", "rank 1 has died"),
        ("lost", "its supervisor has died"),
        ("waits", "the queue is long"),
        ("silent", "the same folder on both nodes"),
        ("[[1", "the same folder on both nodes"),
        ("[]", "its result is not to be had"),
        ("[[1000, 0.001], [4000, 0]]", "above zero"),
    ],
)
def test_a_pair_that_fails_is_told_of_and_the_others_go_on(
    tmp_path: Path, end: str, problem: str
) -> None:
    engine = Pretended({"ab": GOOD, "ac": end, "bc": GOOD})
    heard: list[Measurement] = []
    found = measure_links(
        engine, first(cluster_of("a", "b", "c")), folder=tmp_path, patience=0.2, told=heard.append
    )
    assert found == heard
    by_pair = {"".join(sorted(each.nodes)): each for each in found}
    assert set(by_pair) == {"ab", "ac", "bc"}
    assert by_pair["ac"].link is None
    assert problem in by_pair["ac"].problem
    for pair in ("ab", "bc"):
        link = by_pair[pair].link
        assert link is not None
        assert (link.bits_per_second, link.latency) == pytest.approx((8e6, 0.0))
    assert (by_pair["ac"].job in engine.stopped) == (end == "waits")
    assert list(tmp_path.iterdir()) == []


def test_disjoint_pairs_go_side_by_side(tmp_path: Path) -> None:
    nodes = "abcd"
    engine = Pretended({a + b: GOOD for a in nodes for b in nodes if a < b})
    found = measure_links(engine, first(cluster_of(*nodes)), folder=tmp_path)
    assert len(found) == 6
    assert len({each.job for each in found}) == 6
    assert engine.together[0] == 2


def test_it_leaves_nothing_running_when_it_is_interrupted(tmp_path: Path) -> None:
    nodes = "abcd"
    engine = Pretended({a + b: "waits" for a in nodes for b in nodes if a < b})
    engine.ends["ad"] = GOOD  # of the first round, as is bc

    def interrupt(measurement: Measurement) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_links(engine, first(cluster_of(*nodes)), folder=tmp_path, told=interrupt)
    assert len(engine.launched) == 2
    assert len(engine.stopped) == 1


def test_real_ranks_measure_this_machine(tmp_path: Path) -> None:
    cluster = cluster_of("a", "b")
    engine = LocalEngine(tmp_path / "home", cluster)
    folder = tmp_path / "work"
    folder.mkdir()
    (found,) = measure_links(engine, first(cluster), folder=folder)
    logs = [path.read_text() for path in engine.logs(found.job, 1).values()]
    assert isinstance(found.link, Link), (found.problem, logs)
    sizes = [size for size, _ in found.samples]
    assert len(sizes) >= 2
    assert sizes == sorted(set(sizes))
    assert engine.status(found.job, 1).phase == "ended"
    assert list(folder.iterdir()) == []
