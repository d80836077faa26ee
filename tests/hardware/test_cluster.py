from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.hardware import (
    KNOWN_TYPES,
    Allocation,
    Cluster,
    Configuration,
    DeviceProfile,
    DeviceType,
    Node,
    Pace,
    first_free,
)

EMULATED = DeviceType("slow", None, DeviceProfile(Pace(0.1, 0), Pace(0, 0)))
TYPES = {**KNOWN_TYPES, "slow": EMULATED}


def cluster(*nodes: dict[str, int]) -> Cluster:
    return Cluster(TYPES, tuple(Node(f"n{k}", counts) for k, counts in enumerate(nodes)))


def test_devices_keep_the_order_of_the_file() -> None:
    small = cluster({"t4": 2, "a100": 1}, {"t4": 1})
    assert [device.name for device in small.devices()] == [
        "n0/t4-0",
        "n0/t4-1",
        "n0/a100-0",
        "n1/t4-0",
    ]
    assert small.total == 4
    assert small.configuration == Configuration({"t4": 3, "a100": 1})
    assert small.node("n0").configuration == Configuration({"t4": 2, "a100": 1})


def test_emulated_means_in_use() -> None:
    assert not cluster({"t4": 1}).emulated
    assert cluster({"t4": 1}, {"slow": 1}).emulated
    assert not cluster({"t4": 1}, {"slow": 1}).fully_emulated
    assert cluster({"slow": 1}).fully_emulated
    assert not cluster({}).fully_emulated


def test_what_a_cluster_refuses() -> None:
    with pytest.raises(InputError, match="'n' stands twice"):
        Cluster(TYPES, (Node("n", {}), Node("n", {})))
    with pytest.raises(InputError, match=r"n: unknown device type 't44' \(did you mean 't4'"):
        Cluster(TYPES, (Node("n", {"t44": 1}),))
    with pytest.raises(InputError, match="stands under the name 'x'"):
        Cluster({"x": EMULATED}, ())
    with pytest.raises(InputError, match="at least 1"):
        Node("n", {"t4": 0})
    for link in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="link"):
            Node("n", {}, link)
    with pytest.raises(InputError, match="node 'a/b' is not a name"):
        Node("a/b", {})
    with pytest.raises(InputError, match="unknown node 'm0'"):
        cluster({"t4": 1}).node("m0")


def test_values_do_not_share_what_they_were_made_from() -> None:
    counts = {"t4": 1}
    node = Node("n", counts)
    counts["t4"] = 5
    assert node.devices == {"t4": 1}


def test_clusters_pickle_and_hash() -> None:
    small = cluster({"t4": 1, "slow": 1})
    assert pickle.loads(pickle.dumps(small)) == small
    assert len({small, cluster({"t4": 1, "slow": 1})}) == 1
    assert pickle.loads(pickle.dumps(small.devices())) == small.devices()


nodes = st.lists(
    st.dictionaries(st.sampled_from(["t4", "a100", "slow"]), st.integers(1, 3)), max_size=4
)
wishes = st.dictionaries(st.sampled_from(["t4", "a100", "slow"]), st.integers(0, 5)).map(
    Configuration
)


@given(nodes, st.lists(wishes, max_size=5))
def test_first_free_grants_what_fits_and_nothing_twice(
    layout: list[dict[str, int]], wanted: list[Configuration]
) -> None:
    everything = cluster(*layout)
    taken: list[Allocation] = []
    left = everything.configuration
    for wish in wanted:
        if not wish <= left:
            with pytest.raises(InputError, match="wanted"):
                first_free(everything, wish, taken)
            continue
        allocation = first_free(everything, wish, taken)
        assert allocation.configuration == wish
        assert all(allocation.disjoint(other) for other in taken)
        assert Allocation.named(everything, allocation.names) == allocation
        taken.append(allocation)
        left -= wish


def test_an_allocation() -> None:
    small = cluster({"t4": 2}, {"t4": 1, "slow": 1})
    allocation = Allocation.named(small, ["n1/slow-0", "n0/t4-1", "n1/t4-0"])
    assert allocation.nodes == ("n1", "n0")
    assert allocation.emulated
    assert len(allocation) == 3
    assert [device.index for device in allocation] == [0, 1, 0]
    assert not allocation.disjoint(first_free(small, Configuration({"t4": 2})))
    assert allocation.disjoint(first_free(small, Configuration({"t4": 1})))
    assert hash(allocation) == hash(pickle.loads(pickle.dumps(allocation)))
    with pytest.raises(InputError, match="'n0/t4-0' stands twice"):
        Allocation.named(small, ["n0/t4-0", "n0/t4-0"])
    with pytest.raises(InputError, match="no device 'n0/t4-9'"):
        Allocation.named(small, ["n0/t4-9"])
    with pytest.raises(InputError, match=r"4 devices of t4 wanted, 3 free"):
        first_free(small, Configuration({"t4": 4}))
