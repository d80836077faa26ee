"""`staves links`: what it measures, keeps, shows and refuses."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from staves.cli import run_command
from staves.cli._links import _ended_as_by_hand
from staves.engines._base import Engine
from staves.engines.links import Measurement
from staves.hardware import Device, KeptLink, KeptLinks, Link

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAVES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "home"


@pytest.fixture
def staves(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["links", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def cluster_file(folder: Path, *nodes: str, link: str | None = None) -> str:
    emulate = {part: {"fixed": "1ms", "per_sample": "1ms"} for part in ("forward", "backward")}
    entries = [{"name": name, "devices": {"emu": 1}} for name in nodes]
    document: dict[str, Any] = {"types": {"emu": {"emulate": emulate}}, "nodes": entries}
    if link:
        document["nodes"][0]["link"] = link
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have links measured by nobody: that of node d fails. Return the nodes of each time."""
    asked: list[list[str]] = []

    def measure(
        engine: Engine,
        devices: Mapping[str, Device],
        *,
        folder: Path,
        told: Callable[[Measurement], None],
        waits: Callable[[tuple[str, str], str], None],
    ) -> list[Measurement]:
        assert folder.is_dir()
        asked.append(list(devices))
        names, found = sorted(devices), []
        for one, other in [(a, b) for a in names for b in names if a < b]:
            link = None if "d" in (one, other) else Link(2e8, 1e-3)
            job = f"links-{one}-{other}"
            (folder.parent / "jobs" / job).mkdir(parents=True)
            problem = "" if link else "no way there"
            found.append(Measurement((one, other), job, link, (), problem, 1e9))
            told(found[-1])
        return found

    monkeypatch.setattr("staves.engines.links.measure_links", measure)
    return asked


def test_measures_keeps_and_shows(
    staves: Run, measured: list[list[str]], home: Path, tmp_path: Path
) -> None:
    code, out, err = staves("--cluster", cluster_file(tmp_path, "a", "b", "c"), "--json")
    assert code == 0
    entry = {"bits_per_second": 2e8, "latency_seconds": 1e-3, "measured_at": 1e9}
    pairs = [["a", "b"], ["a", "c"], ["b", "c"]]
    assert json.loads(out) == {
        "links": [{"nodes": pair, **entry} for pair in pairs],
        "problems": [],
    }
    assert "staves: 3 links of 3 nodes, 1 at a time" in err
    assert "staves: 3/3 b - c: 200 Mbit/s" in err
    kept = KeptLinks(home, pytest.fail).read()
    assert kept == {tuple(pair): KeptLink(Link(2e8, 1e-3), 1e9) for pair in pairs}
    assert sorted(path.name for path in home.iterdir()) == [".links.lock", "jobs", "links.json"]
    assert list((home / "jobs").iterdir()) == []
    code, out, err = staves("--kept")
    assert (code, err) == (0, "")
    assert [row.split()[:6] for row in out.splitlines()[1:]] == [
        [*pair, "200", "Mbit/s", "1", "ms"] for pair in pairs
    ]


def test_one_that_fails_does_not_lose_the_others(
    staves: Run, measured: list[list[str]], home: Path, tmp_path: Path
) -> None:
    code, out, err = staves("--cluster", cluster_file(tmp_path, "a", "b", "d"), "--json")
    assert code == 1
    assert err.splitlines()[-1] == "staves: 2 of 3 links were not measured"
    assert {"nodes": ["a", "d"], "problem": "no way there"} in json.loads(out)["problems"]
    assert set(KeptLinks(home, pytest.fail).read()) == {("a", "b")}
    assert {path.name for path in (home / "jobs").iterdir()} == {"links-a-d", "links-b-d"}


def test_emulated_links_are_said_to_stay_as_declared(
    staves: Run, measured: list[list[str]], tmp_path: Path
) -> None:
    _, _, err = staves("--cluster", cluster_file(tmp_path, "a", "b", link="100Mbit"))
    assert "warning: a: links of emulated devices are no faster than declared" in err


def test_one_node_has_no_link(staves: Run, measured: list[list[str]], tmp_path: Path) -> None:
    code, out, err = staves("--cluster", cluster_file(tmp_path, "a"))
    assert (code, out) == (0, "")
    assert err == "staves: the cluster has one node, a: there is no link to measure\n"
    _, out, _ = staves("--cluster", cluster_file(tmp_path, "a"), "--json")
    assert json.loads(out) == {"links": [], "problems": []}
    assert measured == []


def test_what_is_kept_may_be_damaged_or_not_there(staves: Run, home: Path) -> None:
    assert staves("--kept") == (0, "", "staves: no link is known\n")
    home.mkdir()
    (home / "links.json").write_text("{")
    code, out, err = staves("--kept")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "measured links cannot be read" in err


def test_a_plan_says_so_and_goes_on_where_they_are_damaged(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.mkdir()
    (home / "links.json").write_text("{")
    job = tmp_path / "job.yaml"
    job.write_text("{run: python train.py, batch: {reference: 8}}")
    cluster = cluster_file(tmp_path, "a", "b")
    assert run_command(["plan", str(job), "--cluster", cluster, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["job"] == "job"
    assert sum("measured links cannot be read" in line for line in captured.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kept", "--engine", "ray"], "--kept measures nothing"),
        (["--engine", "rey"], "--engine: 'rey' is none"),
        (["--engine-option", "x"], "--engine-option: 'x' is not NAME=VALUE"),
        (["--cluster", "absent.yaml"], "absent.yaml"),
    ],
)
def test_what_is_refused(
    staves: Run, measured: list[list[str]], home: Path, arguments: list[str], said: str
) -> None:
    code, out, err = staves(*arguments)
    assert (code, out, measured) == (2, "", [])
    assert len(err.splitlines()) == 1
    assert said in err
    assert not home.exists()  # nothing is kept of what was refused


class PretendedService:
    """Nodes of a service, some of them with jobs; a job comes onto b as it is drained."""

    def __init__(self) -> None:
        self.states = {"a": "up", "b": "up", "c": "up", "e": "up", "f": "drained"}
        self.jobs: dict[str, str | None] = dict.fromkeys(self.states)
        self.jobs["c"] = "7"
        self.ever_drained: set[str] = set()

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "state": state, "devices": [{"job": self.jobs[name]}]}
            for name, state in self.states.items()
        ]

    def drain(self, node: str, on: bool) -> None:
        self.states[node] = "drained" if on else "up"
        if on:
            self.ever_drained.add(node)
        if on and node == "b":
            self.jobs["b"] = "8"


@pytest.fixture
def service(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendedService:
    from staves.service import ServiceFolder, build_engine

    build_engine("local", home, Path(cluster_file(tmp_path, *"abcef")), {})
    pretended = PretendedService()

    @contextmanager
    def client() -> Iterator[PretendedService]:
        yield pretended

    monkeypatch.setattr("staves.cli._idle_nodes.client", client)
    monkeypatch.setattr(ServiceFolder, "state", "up")
    return pretended


def test_beside_a_service_free_nodes_are_kept_free(
    staves: Run, measured: list[list[str]], service: PretendedService, tmp_path: Path
) -> None:
    code, out, err = staves("--json")
    assert code == 0
    assert measured == [["a", "e"]]
    assert [link["nodes"] for link in json.loads(out)["links"]] == [["a", "e"]]
    assert "c is left out: 7 runs there" in err
    assert "f is left out: it is drained" in err
    assert service.ever_drained == {"a", "b", "e"}
    assert service.states == {"a": "up", "b": "up", "c": "up", "e": "up", "f": "drained"}
    code, _, err = staves("--cluster", str(tmp_path / "cluster.yaml"))
    assert (code, len(measured)) == (2, 1)
    assert "a service runs" in err


def test_beside_a_service_without_free_nodes_nothing_is_measured(
    staves: Run, measured: list[list[str]], service: PretendedService
) -> None:
    service.jobs["a"] = "9"
    code, out, err = staves()
    assert (code, out, measured) == (1, "", [])
    assert "no two nodes are in use and free of jobs" in err.splitlines()[-1]
    assert set(service.states.values()) == {"up", "drained"}
    assert service.states["e"] == "up"


def test_sigterm_ends_it_as_by_hand() -> None:
    before = signal.getsignal(signal.SIGTERM)
    undone: list[str] = []
    started = ExitStack()
    started.callback(undone.append, "what was started")
    with pytest.raises(SystemExit) as ended, _ended_as_by_hand(), started:
        signal.raise_signal(signal.SIGTERM)
    assert (ended.value.code, undone) == (128 + signal.SIGTERM, ["what was started"])
    assert signal.getsignal(signal.SIGTERM) == before
