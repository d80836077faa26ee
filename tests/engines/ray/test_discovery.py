"""Device types, names and reasons from what Ray tells of its nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.engines.ray._discovery import (
    GPU_TYPE,
    Offer,
    RayNode,
    claim_of,
    cluster_of,
    names,
    offers,
    why_pending,
)
from staves.errors import InputError
from staves.hardware import DeviceType, parse_cluster

FILE = parse_cluster("""
types:
  emu: {emulate: {forward: {fixed: 1ms, per_sample: 0ms}, backward: {fixed: 1ms, per_sample: 0ms}}}
  odd-one: {memory: 4GB}
nodes: [{name: near, devices: {emu: 1}, link: 1Gbit}, {devices: {emu: 1}, link: 200Mbit}]
""")


def node(
    resources: dict[str, float],
    labels: dict[str, str] | None = None,
    key: str = "a1b2c3d4",
    label: str = "",
    host: str = "box",
) -> RayNode:
    return RayNode(key, host, label, {"CPU": 8.0, "memory": 1e9, **resources}, labels or {})


def test_what_ray_tells_of_a_node() -> None:
    told = {
        "NodeID": "ab",
        "NodeName": "10.0.0.7",
        "NodeManagerAddress": "10.0.0.7",
        "NodeManagerHostname": "box",
        "Resources": {"CPU": 1.0},
        "Labels": {"a": "b"},
    }
    assert RayNode.of(told) == RayNode("ab", "box", "", {"CPU": 1.0}, {"a": "b"})
    assert RayNode.of(told | {"NodeName": "gpu-1"}).label == "gpu-1"


@pytest.mark.parametrize(
    ("resources", "labels", "found"),
    [
        ({}, {}, {}),
        ({"GPU": 2.0}, {"ray.io/accelerator-type": "V100"}, {"v100": Offer(2, {"GPU": 1.0})}),
        ({"GPU": 2.0, "accelerator_type:T4": 1.0}, {}, {"t4": Offer(2, {"GPU": 1.0})}),
        ({"GPU": 1.0}, {}, {"gpu": Offer(1, {"GPU": 1.0})}),
        (
            {"GPU": 1.0},
            {"ray.io/accelerator-type": "GeForce-RTX-4090"},
            {"rtx4090": Offer(1, {"GPU": 1.0})},
        ),
        (
            {"GPU": 1.0},
            {"ray.io/accelerator-type": "A100", GPU_TYPE: "a100-80gb"},
            {"a100-80gb": Offer(1, {"GPU": 1.0})},
        ),
        ({"GPU": 1.0}, {GPU_TYPE: "odd-one"}, {"odd-one": Offer(1, {"GPU": 1.0})}),
        # A resource that is named as a type says which GPUs they are, and is claimed with them.
        ({"GPU": 2.0, "a100": 2.0}, {}, {"a100": Offer(2, {"GPU": 1.0, "a100": 1.0})}),
        ({"GPU": 1.0, "a100": 2.0}, {}, {"a100": Offer(1, {"GPU": 1.0, "a100": 1.0})}),
        ({"a100": 2.0, "other": 3.0}, {}, {"a100": Offer(2, {"a100": 1.0})}),
        (
            {"GPU": 1.0, "emu": 2.0, "local-cpu": 3.0},
            {"ray.io/accelerator-type": "L4"},
            {
                "emu": Offer(2, {"emu": 1.0}),
                "l4": Offer(1, {"GPU": 1.0}),
                "local-cpu": Offer(3, {"local-cpu": 1.0}),
            },
        ),
        ({"emu": 0.5}, {}, {}),
    ],
)
def test_devices(
    resources: dict[str, float], labels: dict[str, str], found: dict[str, Offer]
) -> None:
    assert offers(node(resources, labels), FILE.types) == found


def test_a_cluster_has_its_types_and_links() -> None:
    nodes = [
        node({"emu": 2.0}, key="1" * 8, label="node-10"),
        node({"emu": 1.0}, key="2" * 8, label="near"),
        node({"v100": 1.0, "odd-one": 1.0}, key="3" * 8, label="node-9"),
        node({}, key="4" * 8, label="head"),
    ]
    found = cluster_of(nodes, names(nodes, {}), FILE)
    assert [n.name for n in found.nodes] == ["near", "node-9", "node-10"]
    assert [n.link_bits_per_second for n in found.nodes] == [1e9, None, 2e8]
    assert found.types["emu"] == FILE.types["emu"]
    assert found.types["odd-one"] == DeviceType("odd-one", 4 * 10**9)
    assert found.types["v100"].memory_bytes == 16 * 10**9
    assert cluster_of(nodes, names(nodes, {}), None).configuration.count("v100") == 1


NODES = st.lists(
    st.builds(
        node,
        st.just({}),
        key=st.text("0123456789abcdef", min_size=12, max_size=12),
        label=st.sampled_from(["", "gpu", "gpu", "-x y-", "..."]),
        host=st.sampled_from(["box", "vm.example", "_"]),
    ),
    unique_by=lambda found: found.id[:6],
    max_size=8,
)


@given(NODES, st.data())
def test_names_are_kept_and_are_each_of_one_node(nodes: list[RayNode], data: st.DataObject) -> None:
    there = nodes[: data.draw(st.integers(0, len(nodes)))]
    before = names(there, {})
    found = names(nodes, before)
    assert found.keys() == {each.id for each in nodes}
    assert len(set(found.values())) == len(nodes)
    assert before.items() <= found.items()
    for each in nodes:  # all may stand in a cluster
        cluster_of([RayNode(each.id, "", "", {"emu": 1.0}, {})], found, FILE)


def test_a_name_is_that_of_the_start_or_the_host() -> None:
    one, two, three = (node({}, key=f"{n}23456789") for n in "abc")
    named = node({}, key="d23456789", label="gpu-1")
    assert names([one, named], {}) == {one.id: "box", named.id: "gpu-1"}
    assert names([one, two], {}) == {one.id: "box-a23456", two.id: "box-b23456"}
    assert names([one, three], {one.id: "box"}) == {one.id: "box", three.id: "box-c23456"}
    # The host is started anew: what was its node is not there any more.
    assert names([three], {one.id: "box"}) == {three.id: "box"}


def test_what_an_agent_claims() -> None:
    there = node({"GPU": 2.0, "a100": 2.0, "emu": 1.0})
    assert claim_of(there, ["a100", "a100"], FILE.types) == {"GPU": 2.0, "a100": 2.0}
    assert claim_of(there, ["emu"], FILE.types) == {"emu": 1.0}
    with pytest.raises(InputError, match="no v100 is there any more"):
        claim_of(there, ["v100"], FILE.types)


@pytest.mark.parametrize(
    ("has", "free", "words"),
    [
        (None, {}, "the node is not in the Ray cluster any more"),
        ({"emu": 2.0}, {"emu": 2.0}, "Ray is starting its actor"),
        ({"emu": 2.0}, {"emu": 1.0}, "Ray is starting its actor"),
        ({"emu": 2.0}, {}, "1 emu wanted, 0 of 2 free: another user of the Ray cluster"),
        ({"emu": 2.0}, {"emu": 0.5}, "1 emu wanted, 0.5 of 2 free"),
        ({"CPU": 1.0}, {"CPU": 1.0}, "the node has no emu any more"),
        ({"emu": 0.5}, {"emu": 0.5}, "1 emu are wanted, the node has 0.5"),
    ],
)
def test_why_an_actor_is_pending(
    has: dict[str, float] | None, free: dict[str, float], words: str
) -> None:
    assert why_pending({"emu": 1.0}, has, free, {"emu": 1.0}).startswith(words)


def test_what_an_actor_holds_as_it_starts_is_nobody_elses() -> None:
    has, own = {"emu": 2.0}, {"emu": 2.0}
    words = why_pending({"emu": 1.0}, has, {}, own)
    assert words.startswith("1 emu wanted, 0 of 2 free: Ray is starting its actor; or another")
    assert "starting" not in why_pending({"emu": 1.0}, has, {}, {"emu": 1.0})
