"""The file of measured links: what comes back, and what becomes of damage."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from staves.errors import InputError, StavesError
from staves.hardware import Cluster, KeptLink, KeptLinks, Link, parse_cluster

CLUSTER = "nodes: [{name: m, devices: {a100: 1}}, {name: n, devices: {a100: 1}}]"
KEPT = KeptLink(Link(1.5e8, 2e-3), 1e9)


def fails(line: str) -> None:
    raise AssertionError(line)


def found_by(kept: KeptLinks, cluster: Cluster) -> dict[tuple[str, str], Link]:
    return dict(kept.on(cluster).links)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    kept, cluster = KeptLinks(tmp_path / "home", fails), parse_cluster(CLUSTER)
    assert kept.read() == {}
    assert kept.on(cluster) is cluster
    kept.keep({("n", "m"): KEPT})
    other = KeptLink(Link(1e9), 2e9)
    KeptLinks(tmp_path / "home", fails).keep({("m", "o"): other})
    assert kept.read() == {("m", "n"): KEPT, ("m", "o"): other}
    assert found_by(kept, cluster) == {("m", "n"): KEPT.link}
    assert kept.on(cluster) is kept.on(cluster)  # so that what follows from it is not made again
    kept.keep({("m", "n"): other})
    assert found_by(kept, cluster) == {("m", "n"): other.link}
    kept.path.unlink()
    assert kept.on(cluster) is cluster
    assert [path.name for path in (tmp_path / "home").iterdir()] == [".links.lock"]


_ENTRY = {"nodes": ["m", "n"], "bits_per_second": 1e8, "latency_seconds": 0, "measured_at": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"links": 1}',
        '{"links": [1]}',
        json.dumps({"links": [{**_ENTRY, "nodes": ["m"]}]}),
        json.dumps({"links": [{**_ENTRY, "nodes": ["m", "m"]}]}),
        json.dumps({"links": [{**_ENTRY, "nodes": ["m", 3]}]}),
        json.dumps({"links": [{**_ENTRY, "bits_per_second": 0}]}),
        json.dumps({"links": [{**_ENTRY, "latency_seconds": "long"}]}),
        json.dumps({"links": [{"nodes": ["m", "n"]}]}),
        "\xff",
    ],
)
def test_a_damaged_file_is_said_once_and_done_without(tmp_path: Path, text: str) -> None:
    said: list[str] = []
    kept, cluster = KeptLinks(tmp_path, said.append), parse_cluster(CLUSTER)
    kept.path.write_bytes(text.encode("latin-1"))
    assert kept.on(cluster) is kept.on(cluster) is cluster
    (line,) = said
    assert str(kept.path) in line
    assert "staves links" in line
    assert "\n" not in line
    with pytest.raises(InputError):
        kept.read()
    kept.keep({("m", "n"): KEPT})
    assert found_by(kept, cluster) == {("m", "n"): KEPT.link}


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    pairs = [("m", f"n{i}") for i in range(12)]
    threads = [
        threading.Thread(target=KeptLinks(tmp_path, fails).keep, args=({pair: KEPT},))
        for pair in pairs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert KeptLinks(tmp_path, fails).read() == dict.fromkeys(pairs, KEPT)


def test_a_home_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StavesError, match="STAVES_HOME"):
        KeptLinks(tmp_path / "home", fails).keep({("m", "n"): KEPT})
