from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError
from staves.hardware import Allocation, Cluster, Device, DeviceType, Node
from staves.scheduling import Counts, place

seeds = st.integers(0, 2**32 - 1)
TYPES = ("a", "b", "c")


def cluster(*nodes: dict[str, int]) -> tuple[Device, ...]:
    return Cluster(
        {name: DeviceType(name) for name in TYPES},
        tuple(Node(f"n{i}", devices) for i, devices in enumerate(nodes)),
    ).devices()


def random_cluster(rng: np.random.Generator) -> tuple[Device, ...]:
    nodes = []
    for _ in range(int(rng.integers(1, 7))):
        counts = dict(zip(TYPES, rng.integers(0, 5, 3).tolist(), strict=True))
        nodes.append({name: n for name, n in counts.items() if n})
    return cluster(*nodes)


def random_choice(rng: np.random.Generator, devices: tuple[Device, ...]) -> dict[str, Counts]:
    free = counted(Allocation(devices))
    chosen = {}
    for i in rng.permutation(6).tolist():
        counts = tuple(int(rng.integers(0, min(n, 5) + 1)) for n in free)
        if any(counts):
            chosen[f"job-{i}"] = counts
            free = tuple(n - used for n, used in zip(free, counts, strict=True))
    return chosen


def counted(allocation: Allocation) -> Counts:
    return tuple(allocation.configuration.count(name) for name in TYPES)


@given(seeds)
@settings(max_examples=300)
def test_histories_of_decisions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices = random_cluster(rng)
    current: dict[str, Allocation] = {}
    for _ in range(4):
        if rng.random() < 0.3:  # devices vanish
            devices = tuple(d for d in devices if rng.random() < 0.8)
        chosen = random_choice(rng, devices)
        for job in list(chosen):  # some stay as they are, if that still fits
            if job in current and rng.random() < 0.5:
                chosen[job] = counted(current[job])
        names = {device.name for device in devices}
        total = counted(Allocation(devices))
        if any(
            sum(n) > top for n, top in zip(zip(*chosen.values(), strict=True), total, strict=False)
        ):
            continue
        placed = place(devices, chosen, TYPES, current)
        assert placed.keys() == chosen.keys()
        used = [device.name for allocation in placed.values() for device in allocation]
        assert len(used) == len(set(used))
        assert set(used) <= names
        for job, allocation in placed.items():
            assert counted(allocation) == chosen[job]
            before = current.get(job, Allocation())
            left = [device for device in before if device.name in names]
            if counted(before) == chosen[job] and len(left) == len(before):
                assert allocation == before
            kept = [device for device in allocation if device in left]
            assert kept == [device for device in left if device in kept]  # the order of ranks
            assert list(allocation)[: len(kept)] == kept
            for g, name in enumerate(TYPES):
                had = sum(device.type.name == name for device in left)
                stays = sum(device.type.name == name for device in kept)
                assert stays == min(had, chosen[job][g])
        assert place(devices, chosen, TYPES, placed) == placed
        assert place(devices, chosen, TYPES, current) == placed
        current = placed


@given(seeds)
@settings(max_examples=100)
def test_a_lone_job_of_one_type_is_on_the_fewest_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices = random_cluster(rng)
    by_node: dict[str, int] = {}
    for device in devices:
        by_node[device.node] = by_node.get(device.node, 0) + (device.type.name == "a")
    if not sum(by_node.values()):
        return
    count = int(rng.integers(1, sum(by_node.values()) + 1))
    fewest = next(
        size
        for size in itertools.count(1)
        if any(sum(nodes) >= count for nodes in itertools.combinations(by_node.values(), size))
    )
    placed = place(devices, {"j": (count, 0, 0)}, TYPES, {})["j"]
    assert len(placed.nodes) == fewest


def test_what_spans_nodes_takes_whole_ones_and_the_rest_fits_best() -> None:
    devices = cluster({"a": 3}, {"a": 4}, {"a": 2}, {"a": 4})
    placed = place(devices, {"big": (10, 0, 0), "small": (3, 0, 0)}, TYPES, {})
    assert placed["big"].nodes == ("n1", "n3", "n2")
    assert placed["small"].nodes == ("n0",)


def test_a_job_grows_where_it_is_and_shrinks_to_one_node() -> None:
    devices = cluster({"a": 2}, {"a": 4})
    first = place(devices, {"j": (1, 0, 0)}, TYPES, {})
    assert first["j"].nodes == ("n0",)
    grown = place(devices, {"j": (2, 0, 0)}, TYPES, first)
    assert grown["j"].nodes == ("n0",)
    spread = place(devices, {"j": (5, 0, 0)}, TYPES, grown)
    assert spread["j"].names[:2] == grown["j"].names
    assert place(devices, {"j": (3, 0, 0)}, TYPES, spread)["j"].nodes == ("n1",)


def test_home_comes_before_the_best_fit() -> None:
    devices = cluster({"a": 1}, {"a": 4})
    held = {"j": Allocation(devices[1:2])}
    assert place(devices, {"j": (2, 0, 0)}, TYPES, held)["j"].nodes == ("n1",)


def test_a_mixed_job_prefers_the_node_that_has_both() -> None:
    devices = cluster({"a": 2}, {"a": 1, "b": 1}, {"b": 2})
    assert place(devices, {"j": (1, 1, 0)}, TYPES, {})["j"].nodes == ("n1",)


def test_a_decision_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="1 more devices of b"):
        place(cluster({"a": 2, "b": 1}), {"j": (1, 2, 0)}, TYPES, {})


@given(seeds)
@settings(max_examples=200)
def test_spread_takes_from_the_emptiest_node(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices = cluster(*({"a": int(n)} for n in rng.integers(1, 5, 5)))
    need = int(rng.integers(1, len(devices) + 1))
    placed = place(devices, {"x": (need, 0, 0)}, TYPES, {}, placing="spread")
    expected = {f"n{i}": 0 for i in range(5)}
    left = {f"n{i}": sum(d.node == f"n{i}" for d in devices) for i in range(5)}
    missing = need
    while missing:
        node = max(left, key=lambda node: left[node])
        taken = min(left[node], missing)
        expected[node] += taken
        left[node] -= taken
        missing -= taken
    assert {n: sum(d.node == n for d in placed["x"].devices) for n in expected} == expected


@given(seeds)
@settings(max_examples=200)
def test_aligned_jobs_stand_on_no_more_nodes_than_they_need(seed: int) -> None:
    """Powers of two within nodes, and whole nodes, always fit so."""
    rng = np.random.default_rng(seed)
    devices = cluster(*({"a": 4} for _ in range(4)), *({"b": 8} for _ in range(2)))
    current: dict[str, Allocation] = {}
    for _ in range(6):
        free, chosen = [16, 16], dict[str, Counts]()
        for i in rng.permutation(12).tolist():
            g = int(rng.integers(2))
            size = int(rng.choice([[1, 2, 4, 8, 12], [1, 2, 4, 8, 16]][g]))
            if size <= free[g]:
                free[g] -= size
                chosen[f"job-{i}"] = (size, 0, 0) if g == 0 else (0, size, 0)
        placed = place(devices, chosen, TYPES, current, placing="aligned")
        names = [d.name for allocation in placed.values() for d in allocation.devices]
        assert len(names) == len(set(names))
        for job, allocation in placed.items():
            assert counted(allocation) == chosen[job]
            whole = 4 if chosen[job][0] else 8
            assert len(allocation.nodes) == -(-sum(chosen[job]) // whole)
        current = placed


def test_aligning_moves_no_fixed_job() -> None:
    devices = cluster({"a": 2}, {"a": 2})
    held = {"x": Allocation((devices[0],)), "y": Allocation((devices[2],))}
    chosen = {"x": (1, 0, 0), "y": (1, 0, 0), "z": (2, 0, 0)}
    moved = place(devices, chosen, TYPES, held, placing="aligned")
    assert len(moved["z"].nodes) == 1
    kept = place(devices, chosen, TYPES, held, placing="aligned", fixed={"x", "y"})
    assert kept["x"] == held["x"]
    assert kept["y"] == held["y"]
    assert len(kept["z"].nodes) == 2
