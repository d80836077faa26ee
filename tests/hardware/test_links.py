"""Measured and declared links, against brute force over all pairs of nodes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.hardware import (
    Cluster,
    DeviceProfile,
    DeviceType,
    Layout,
    Link,
    Node,
    Pace,
    pair_of,
)

_PROFILE = DeviceProfile(Pace(0.1, 0.1), Pace(0.1, 0.1))
TYPES = {
    "a": DeviceType("a"),
    "b": DeviceType("b"),
    "e": DeviceType("e", profile=_PROFILE),
}
SPEEDS = st.sampled_from([1e6, 3e6, 1e7, 1e9])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = tuple(
        Node(
            f"n{i}",
            dict.fromkeys(sorted(draw(st.sets(st.sampled_from("abe"), min_size=1))), 1),
            draw(st.none() | SPEEDS),
        )
        for i in range(draw(st.integers(1, 6)))
    )
    pairs = list(itertools.combinations([node.name for node in nodes], 2))
    chosen = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    links = {
        pair: Link(draw(SPEEDS), draw(st.sampled_from([0.0, 1e-4, 1e-2])))
        for pair in sorted(chosen)
    }
    return Cluster(TYPES, nodes).with_links(links)


def brute(cluster: Cluster, nodes: list[Node]) -> tuple[float, float] | None:
    """Return the lowest speed and the longest latency of all pairs."""
    speeds, latencies = [], []
    for one, other in itertools.permutations(nodes, 2):
        measured = cluster.links.get((one.name, other.name))
        if measured is None:
            measured = cluster.links.get((other.name, one.name))
        declared = [n.link_bits_per_second for n in (one, other) if n.link_bits_per_second]
        emulated = "e" in one.devices or "e" in other.devices
        if measured is not None:
            speeds.append(measured.bits_per_second)
            latencies.append(measured.latency)
        if measured is None or emulated:
            speeds += declared
            latencies += [0.0] * len(declared)
    return (min(speeds), max(latencies)) if speeds else None


def plain(link: Link | None) -> tuple[float, float] | None:
    return None if link is None else (link.bits_per_second, link.latency)


@given(clusters(), st.data())
def test_a_ring_is_like_the_worst_pair_of_its_nodes(cluster: Cluster, data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.sampled_from(cluster.nodes), unique_by=lambda n: n.name))
    found = cluster.slowest_link([node.name for node in nodes])
    assert plain(found) == brute(cluster, nodes)


@given(clusters(), st.sets(st.sampled_from("abe"), min_size=1))
def test_a_layout_knows_the_worst_pair_of_nodes_with_its_types(
    cluster: Cluster, types: set[str]
) -> None:
    having = [node for node in cluster.nodes if types & node.devices.keys()]
    assert plain(Layout.of(cluster).link(types)) == brute(cluster, having)


def test_what_counts_of_measured_and_declared() -> None:
    def between(kind: str, declared: float | None, measured: float | None) -> float | None:
        nodes = Node("m", {kind: 1}, declared), Node("n", {kind: 1})
        links = {} if measured is None else {("m", "n"): Link(measured)}
        found = Cluster(TYPES, nodes).with_links(links).link_between("n", "m")
        return None if found is None else found.bits_per_second

    expected: Mapping[tuple[str, float | None, float | None], float | None] = {
        ("a", None, None): None,
        ("a", 1e9, None): 1e9,
        ("a", 1e9, 1e8): 1e8,
        ("a", 1e8, 1e9): 1e9,  # measured is what counts
        ("e", 1e8, 1e9): 1e8,  # emulated devices are held to what is declared
        ("e", 1e9, 1e8): 1e8,
        ("e", None, 1e8): 1e8,
    }
    assert {case: between(*case) for case in expected} == expected


def test_links_of_other_nodes_are_left_out() -> None:
    nodes = Node("m", {"a": 1}), Node("n", {"a": 1})
    link = Link(1e6, 1e-3)
    cluster = Cluster(TYPES, nodes).with_links({("m", "n"): link, ("m", "gone"): link})
    assert cluster.links == {("m", "n"): link}
    assert cluster != Cluster(TYPES, nodes)
    assert pair_of("n", "m") == pair_of("m", "n") == ("m", "n")
    with pytest.raises(InputError, match="unknown node 'gone'"):
        cluster.link_between("m", "gone")


def test_a_thousand_nodes_are_no_million_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    whole = Cluster.expected

    def counted(self: Cluster, one: Node, other: Node, measured: Link | None) -> Link | None:
        asked.append(one)
        return whole(self, one, other, measured)

    monkeypatch.setattr(Cluster, "expected", counted)
    nodes = tuple(Node(f"m{i}", {"a": 8}, 1e9 if i % 2 else 1e8) for i in range(1000))
    cluster = Cluster(TYPES, nodes).with_links({("m0", "m1"): Link(1e6)})
    assert plain(Layout.of(cluster).link("a")) == (1e6, 0.0)
    assert len(asked) == 4  # one measured pair, and three of two kinds of nodes


@pytest.mark.parametrize(
    ("speed", "latency"),
    [(0.0, 0.0), (-1.0, 0.0), (float("nan"), 0.0), (float("inf"), 0.0), (1.0, -1e-9)],
)
def test_what_is_no_link(speed: float, latency: float) -> None:
    with pytest.raises(InputError):
        Link(speed, latency)
