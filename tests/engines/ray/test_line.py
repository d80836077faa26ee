"""The line to a driver: what goes wrong at its far end is an error of one line."""

from __future__ import annotations

import importlib.util
import socket
import time
from collections.abc import Iterator

import pytest

from staves.engines.agents import AgentOrder
from staves.engines.ray import RayNodes
from staves.engines.ray._line import Line
from staves.errors import InputError, StavesError
from staves.hardware import Device, DeviceType
from tests.engines.ray.cluster import PATIENCE, RayCluster, nodes_of, shared


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> RayCluster:
    return shared(pytestconfig)


@pytest.fixture
def line(cluster: RayCluster) -> Iterator[Line]:
    line = Line(cluster.address)
    yield line
    line.close()


def order(agent: str, node: str, kind: str = "t4") -> AgentOrder:
    device = Device(f"{node}/{kind}-0", DeviceType(kind), node, 0)
    return AgentOrder(agent, node, (device,), "127.0.0.1:9", "secret")


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(StavesError, match="needs the package ray") as raised:
        RayNodes(address="127.0.0.1:1").discover()
    assert raised.value.hint == "pip install 'staves[ray]'"


def test_a_cluster_that_is_not_there(cluster: RayCluster) -> None:
    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StavesError, match=f"127.0.0.1:{port} cannot be reached") as raised:
        RayNodes(address=f"127.0.0.1:{port}").discover()
    assert "\n" not in str(raised.value)
    with pytest.raises(InputError, match="Ray client"):
        RayNodes(address="ray://127.0.0.1:10001")


@pytest.mark.parametrize("address", ["", "banana", "10.0.0.1", "10.0.0.1:", ":6379", "h:99999"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=r"^--address: .*no address of a Ray cluster"):
        RayNodes(address=address)


def test_another_is_made_of_plain_values(cluster: RayCluster) -> None:
    with nodes_of(cluster) as nodes:
        found = nodes.discover()
        another = RayNodes(**nodes.options())
        try:
            assert another.address() == nodes.address()  # without another driver
            assert another.options() == nodes.options()
            assert another.discover() == found
        finally:
            another.close()


def test_a_refusal_leaves_the_line_usable(line: Line) -> None:
    with pytest.raises(StavesError, match="TypeError"):
        line.call("state", agents="none")
    assert {node["NodeName"] for node in line.call("nodes")} == {"head", "left", "middle", "right"}


def test_what_a_node_does_not_have_cannot_be_asked_for(cluster: RayCluster) -> None:
    with nodes_of(cluster) as nodes:
        with pytest.raises(StavesError, match="left: no t4 is there any more"):
            nodes.start_agent(order("one", "left"))
        with pytest.raises(StavesError, match="nowhere is not in the Ray cluster"):
            nodes.start_agent(order("two", "nowhere"))
        assert nodes.agent_state("one").phase == "ended"
        nodes.end_agent("one")


def test_an_agent_that_fails_says_its_last_words(cluster: RayCluster) -> None:
    with nodes_of(cluster) as nodes:
        nodes.start_agent(order("one", "left", "emu"))
        end = time.monotonic() + PATIENCE
        while (state := nodes.agent_state("one")).phase != "ended":
            assert time.monotonic() < end, state
            time.sleep(0.05)
        assert state.reason.startswith("status 1: agent one: 127.0.0.1:9 cannot be reached")
        nodes.end_agent("one")
        nodes.end_agent("one")


def test_a_driver_that_dies_is_followed_by_another(cluster: RayCluster) -> None:
    with nodes_of(cluster) as nodes:
        nodes.discover()
        nodes.start_agent(order("one", "left", "emu"))
        assert nodes._line is not None
        nodes._line._process.kill()
        with pytest.raises(StavesError, match="was lost"):
            nodes._line.call("nodes")
        assert nodes.agent_state("one").reason == "its Ray driver has ended, and its actor with it"
        assert nodes.discover().total == 4
        assert nodes.agent_state("one").phase == "ended"
