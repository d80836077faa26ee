"""`staves links` over a link that the kernel holds back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.links.measuring import CLUSTER
from benchmarks.links.network import joined

from staves.cli import run_command
from staves.engines._base import Engine
from staves.engines.agents import AgentEngine, SubprocessNodes
from staves.engines.links import measure_links
from staves.errors import StavesError
from staves.hardware import KeptLinks

pytestmark = pytest.mark.soak  # tens of seconds, and root

MEGABITS, BURST = 50.0, 1 << 16


def test_it_finds_what_the_link_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("STAVES_HOME", str(home))
    try:
        with joined(MEGABITS) as network:

            def build(home: Path, *_: object) -> Engine:
                nodes = SubprocessNodes(
                    cluster=CLUSTER,
                    folder=str(tmp_path / "nodes"),
                    prefixes=network.prefixes,
                    host=network.host,
                )
                return AgentEngine(home, nodes)

            engines = {"shaped": (build, ())}
            monkeypatch.setattr("staves.service._engines._ENGINES", engines)
            assert run_command(["links", "--engine", "shaped", "--json"]) == 0
            engine = build(home)
            devices = {device.node: device for device in engine.cluster().devices()}
            (found,) = measure_links(engine, devices, folder=tmp_path)
    except StavesError as error:
        if "namespaces" not in error.message:
            raise
        pytest.skip(str(error))
    (entry,) = json.loads(capsys.readouterr().out)["links"]
    kept = KeptLinks(home, pytest.fail).read()
    assert kept[("left", "right")].link.bits_per_second == entry["bits_per_second"]
    assert found.link is not None
    # No all-reduce is done before the kernel has let its bytes through: that holds on any machine.
    for size, seconds in found.samples:
        assert seconds >= 8 * (size - 2 * BURST) / (1e6 * MEGABITS)
