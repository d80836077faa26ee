from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from staves.errors import InputError
from staves.estimation import GuessedRates, JobProfile, relative_speeds
from staves.hardware import Cluster, Configuration, DeviceType, Layout, Link, Node
from staves.steptime import Communication, Device, Line, Ring, StepTimeModel, integer_split
from staves.training._environment import WorkerDevice
from staves.training._knowledge import Knowledge


def lines(seconds: float) -> tuple[Line, Line]:
    return Line(0.1 * seconds, 0.2 * seconds), Line(0.3 * seconds, 0.4 * seconds, 0.35 * seconds)


def profile(seconds: Mapping[str, float], batch: int = 10, world_size: int = 2) -> JobProfile:
    return JobProfile(batch, {name: lines(s) for name, s in seconds.items()}, world_size=world_size)


def test_what_a_job_learned_comes_back_as_its_profile() -> None:
    known = Communication((0.5, 1.0), (0.02, 0.03))
    devices = [WorkerDevice("n/a-0", "a"), WorkerDevice("n/b-0", "b")]
    model = StepTimeModel((Device("0", "a", *lines(1.0)), Device("1", "b", *lines(3.0))), known)
    document = Knowledge().learn(model, devices).to_document()
    found = JobProfile.from_knowledge(document, 64)
    assert found.measured == {"a", "b"}
    ring = Ring(("a", "b"), ("n",), 2, known)
    both = {"a": lines(1.0), "b": lines(3.0)}
    assert found == JobProfile(64, both, known, 2, rings=(ring,))
    rate = found.rates(("b", "a"))(np.array([[1, 1]]))
    assert rate[0] == pytest.approx(64 / integer_split(model, 64).step_seconds)


def test_a_lone_device_tells_nothing_of_communication() -> None:
    model = StepTimeModel((Device("0", "a", *lines(1.0)),), Communication((1.0,), (0.5,)))
    document = Knowledge().learn(model, [WorkerDevice("n/a-0", "a")]).to_document()
    assert JobProfile.from_knowledge(document, 8).communication is None


def test_a_mix_is_as_slow_as_the_slowest_ring_of_its_types() -> None:
    """Learned on one type at a time, the one on the fast link last."""
    slow, fast = Communication((1.0,), (0.4,)), Communication((1.0,), (0.1,))
    knowledge = Knowledge()
    for name, known in (("a", slow), ("b", fast)):
        pair = tuple(Device(f"{i}", name, *lines(1.0)) for i in range(2))
        devices = [WorkerDevice(f"{name}{i}/{name}-0", name) for i in range(2)]
        knowledge = knowledge.learn(StepTimeModel(pair, known), devices)
    found = JobProfile.from_knowledge(knowledge.to_document(), 8)
    types = found.type_lines(("a", "b"), {})
    assert types.communication_of((2, 0)).seconds == (0.4,)
    assert types.communication_of((0, 2)).seconds == (0.1,)
    assert types.communication_of((1, 1)).seconds == (0.4,)
    assert types.communication_of((2, 2)).seconds == pytest.approx((0.6,))
    assert types.communication_of((0, 1)).seconds == (0.0,)


def test_devices_within_a_node_are_told_from_those_over_several() -> None:
    within = Ring(("a",), ("n",), 2, Communication((1.0,), (0.1,)))
    over = Ring(("a",), ("n", "o"), 4, Communication((1.0,), (0.6,)))
    found = JobProfile(8, {"a": lines(1.0)}, over.communication, 4, rings=(within, over))
    layout = Layout((Configuration({"a": 2}),))
    known = replace(found, layout=layout).type_lines(("a",), {})
    assert known.communication_of((2,)).seconds == (0.1,)
    assert known.communication_of((3,)).seconds == pytest.approx((0.6 * (4 / 3) / 1.5,))
    assert found.type_lines(("a",), {}).communication_of((2,)).seconds == pytest.approx((0.4,))


def test_before_anything_is_known_speeds_count() -> None:
    found = JobProfile.from_knowledge(None, 32)
    assert found.measured == frozenset()
    rates = found.rates(("a", "b"), {"a": 2.0})
    assert isinstance(rates, GuessedRates)
    one_a, one_b, both, four_b = rates(np.array([[1, 0], [0, 1], [1, 1], [0, 4]]))
    assert one_a == 2 * one_b
    assert 0.9 * (one_a + one_b) < both < one_a + one_b
    assert 3 * one_b < four_b < 4 * one_b


def test_unmeasured_types_have_the_lines_of_the_nearest_scaled() -> None:
    found = profile({"slow": 4.0, "fast": 1.0})
    speeds = {"slow": 0.25, "fast": 1.0, "new": 0.3}
    rates = found.rates(("slow", "new"), speeds)(np.eye(2, dtype=np.int64))
    assert rates[1] == pytest.approx(rates[0] * 0.3 / 0.25)
    unknown = found.rates(("fast", "other"), {})(np.eye(2, dtype=np.int64))
    assert unknown[1] == unknown[0]


def test_the_ratio_of_two_types_is_the_median_over_jobs() -> None:
    jobs = [profile({"a": 1.0, "b": ratio}) for ratio in (2.0, 3.0, 50.0)]
    speeds = relative_speeds([*jobs, profile({"b": 7.0}), JobProfile(5)])
    assert speeds["a"] / speeds["b"] == pytest.approx(3.0)
    assert speeds["a"] * speeds["b"] == pytest.approx(1.0)


def test_ratios_go_along_chains_of_jobs() -> None:
    jobs = [profile({"a": 1.0, "b": 2.0}), profile({"b": 1.0, "c": 5.0})]
    apart = profile({"x": 1.0, "y": 4.0})
    speeds = relative_speeds([*jobs, apart])
    assert speeds["a"] / speeds["c"] == pytest.approx(10.0)
    assert speeds["x"] == pytest.approx(2.0)
    assert speeds["y"] == pytest.approx(0.5)
    assert relative_speeds([]) == {}


def test_pairs_that_disagree_count_by_their_jobs() -> None:
    """A triangle off by 9/4 in the logarithm: each side gives way by the inverse of its weight."""
    many = [profile({"a": 1.0, "b": 1.0})] * 4
    odd = [profile({"b": 1.0, "c": 1.0}), profile({"a": 1.0, "c": math.exp(9 / 4)})]
    speeds = relative_speeds([*many, *odd])
    assert math.log(speeds["a"] / speeds["b"]) == pytest.approx(1 / 4)
    assert math.log(speeds["b"] / speeds["c"]) == pytest.approx(1)


@pytest.mark.parametrize("document", [{}, {"lines": 3}, {"lines": {"type a": [1]}}])
def test_malformed_knowledge_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InputError, match="malformed"):
        JobProfile.from_knowledge(document, 8)


def test_what_was_found_for_the_same_lines_is_remembered() -> None:
    """Profiles are made anew for every decision; what they say seldom changes."""
    first, second = (JobProfile.from_step("a", 2.0, 64) for _ in range(2))
    assert first.rates(("a", "b")) is second.rates(("a", "b"))
    assert first.rates(("a", "b")) is not first.rates(("a", "b"), {"a": 2.0})
    assert first.rates(("a",)) is not JobProfile.from_step("a", 2.0, 32).rates(("a",))


@pytest.mark.parametrize(
    ("megabits", "latency", "faster"),
    [(1000, 0.0, 4), (200, 0.0, 4), (50, 0.0, 2), (200, 0.05, 2)],
)
def test_a_measured_link_decides_whether_two_nodes_are_faster(
    megabits: float, latency: float, faster: int
) -> None:
    """Learned within one node; by hand: 96 samples of 6 ms over two devices or four, and the last
    bucket's bytes, one and a half times, after the whole backward pass."""
    size = 1_000_000
    pair = Line(0.05, 0.002), Line(0.05, 0.004)
    ring = Ring(("a",), ("m",), 2, Communication((1.0,), (0.001,)), 40.0, (size,))
    nodes = tuple(Node(name, {"a": 2}) for name in "mn")
    cluster = Cluster({"a": DeviceType("a")}, nodes)
    link = Link(1e6 * megabits, latency)
    known = cluster.with_links({("m", "n"): link})
    found = JobProfile(
        96, {"a": pair}, ring.communication, 2, rings=(ring,), layout=Layout.of(known)
    )
    wire = max(0.0015, 3 * latency + 1.5 * 8 * size / (1e6 * megabits))
    expected = {2: 0.1 + 48 * 0.006 + 0.001, 4: 0.1 + 24 * 0.006 + wire}
    seconds = {n: 96 / found.rates(["a"])(np.array([[n]]))[0] for n in expected}
    assert seconds == pytest.approx(expected)
    assert min(seconds, key=lambda n: seconds[n]) == faster
    blind = replace(found, layout=Layout.of(cluster)).rates(["a"])(np.array([[2], [4]]))
    assert blind[1] > blind[0]  # without it, four devices always seem faster
