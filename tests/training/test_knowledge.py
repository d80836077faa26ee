"""What a job keeps of the wire: by the types of the ring, and by how many nodes it spans."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staves.steptime import FREE, StepTimeModel
from staves.training._environment import WorkerDevice
from staves.training._fitting import fit_model, observe
from staves.training._knowledge import Knowledge
from staves.training._virtual_truth import take_step
from tests.training.virtual import truth

READY = [0.4, 1.0]


def ring(kind: str, count: int = 2, nodes: str = "") -> list[WorkerDevice]:
    """Return devices of one type, on a node of their own each, or on those that are named."""
    places = nodes or "".join(chr(ord("m") + i) for i in range(count))
    return [WorkerDevice(f"{node}/{kind}-{i}", kind) for i, node in enumerate(places)]


def observed(
    knowledge: Knowledge, devices: Sequence[WorkerDevice], wire: Sequence[float], steps: int = 10
) -> Knowledge:
    model = truth([1e-3] * len(devices), READY, wire)
    made = [take_step(model, [8] * len(devices), step=step) for step in range(steps)]
    records = [[step[rank] for step in made] for rank in range(len(devices))]
    knowledge = observe(knowledge, records, devices)
    fitted: StepTimeModel = fit_model(knowledge, devices, [(0, None)] * len(devices)).model
    return knowledge.learn(fitted, devices)


def seconds(knowledge: Knowledge, devices: Sequence[WorkerDevice]) -> float:
    found = knowledge.communication_of(devices)
    assert found is not None
    return sum(found.seconds)


def test_each_ring_is_known_by_itself_however_long_another_was_measured() -> None:
    slow, fast = ring("a"), ring("b")
    known = observed(Knowledge(), slow, [0.3, 0.1], steps=500)
    known = observed(known, fast, [0.03, 0.01])
    assert seconds(known, slow) == pytest.approx(0.4)
    assert seconds(known, fast) == pytest.approx(0.04)
    assert seconds(known, [slow[0], fast[1]]) == pytest.approx(0.4)
    assert seconds(known, [*slow, *fast]) == pytest.approx(1.5 * 0.4)
    assert known.communication_of(slow[:1]) == FREE
    assert Knowledge.from_document(known.to_document()) == known


def test_a_measured_mix_counts_for_itself() -> None:
    known = observed(Knowledge(), ring("a"), [0.3, 0.1])
    known = observed(known, ring("b"), [0.03, 0.01])
    mix = [ring("a")[0], ring("b")[1]]
    known = observed(known, mix, [0.36, 0.12])
    assert seconds(known, mix) == pytest.approx(0.48)
    assert seconds(known, ring("a")) == pytest.approx(0.4)


def test_a_ring_within_a_node_is_another_than_one_over_several() -> None:
    known = observed(Knowledge(), ring("a", nodes="mm"), [0.003, 0.001])
    assert seconds(known, ring("a")) == pytest.approx(0.004)  # nothing better is known
    known = observed(known, ring("a"), [0.3, 0.1])
    assert seconds(known, ring("a")) == pytest.approx(0.4)
    assert seconds(known, ring("a", nodes="mm")) == pytest.approx(0.004)


def test_on_other_nodes_what_was_measured_gives_way_soon() -> None:
    """Nodes of one type may have unlike links."""
    here, there = ring("a", nodes="mn"), ring("a", nodes="op")
    known = observed(Knowledge(), here, [0.3, 0.1], steps=200)
    assert seconds(observed(known, there, [0.03, 0.01], steps=45), there) <= 0.04 + 0.36 / 9
    assert seconds(observed(known, here, [0.03, 0.01], steps=45), here) > 0.2


def test_a_device_alone_does_not_forget_the_rings() -> None:
    known = observed(Knowledge(), ring("a"), [0.3, 0.1])
    alone = observed(known, ring("a", 1), [0.0, 0.0])
    assert seconds(alone, ring("a", 1)) == 0.0
    assert seconds(alone, ring("a")) == pytest.approx(0.4)
