"""The simulated engine keeps the promises of engines, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.engines._base import Launch
from staves.errors import InputError, StavesError
from staves.hardware import Cluster, Device, parse_cluster
from staves.simulation import Overheads, SimulatedEngine, TrainingTruth
from staves.steptime import Communication, StepTimeModel, even_split, integer_split
from staves.steptime import Device as Line
from staves.steptime import Line as Pass
from staves.training._planner import PROBE, SETTLE, WARM_UP

CLUSTER = parse_cluster("""
types:
  fast: {emulate: {forward: {fixed: 2ms, per_sample: 1ms}, backward: {fixed: 4ms, per_sample: 2ms}}}
  slow: {emulate: {forward: {fixed: 4ms, per_sample: 3ms}, backward: {fixed: 6ms, per_sample: 5ms}}}
nodes: [{name: a, devices: {fast: 2}}, {name: b, devices: {slow: 2}}]
""")
WIRE = Communication((0.5, 1.0), (0.004, 0.006))
LONG = TrainingTruth(batch=32, samples=320, epochs=40, communication=WIRE)


class World:
    """An engine, and a clock that goes on when it is told to."""

    def __init__(self, truth: TrainingTruth = LONG, overheads: Overheads | None = None) -> None:
        self.now = 100.0
        self.engine = SimulatedEngine(
            CLUSTER, {"job": truth}, overheads or Overheads(), lambda: self.now
        )

    def launch(self, devices: Sequence[Device], attempt: int = 1) -> None:
        self.engine.launch(Launch("job", attempt, "", tuple(devices), Path(), {}))

    def wait(self, seconds: float) -> None:
        self.now += seconds


def devices(*names: str, cluster: Cluster = CLUSTER) -> list[Device]:
    known = {device.name: device for device in cluster.devices()}
    return [known[name] for name in names]


FAST, BOTH = devices("a/fast-0"), devices("a/fast-0", "b/slow-0")
ALL = list(CLUSTER.devices())


def model(of: Sequence[Device]) -> StepTimeModel:
    """The declared step-time model: the oracle."""
    lines = []
    for device in of:
        profile = device.type.profile
        assert profile is not None
        f, b = profile.forward, profile.backward
        lines.append(
            Line(
                device.name,
                device.type.name,
                Pass(f.fixed, f.per_sample),
                Pass(b.fixed, b.per_sample),
            )
        )
    share = 2 * (len(of) - 1) / len(of)  # of a ring, beside that of two
    return StepTimeModel(
        tuple(lines), Communication(WIRE.ready, tuple(s * share for s in WIRE.seconds))
    )


def test_what_was_never_launched_is_absent() -> None:
    world = World()
    assert world.engine.status("job", 1).phase == "absent"
    assert world.engine.logs("job", 1) == {}
    world.engine.stop("job", 1, save=True, grace=1.0)
    with pytest.raises(InputError, match="never launched"):
        world.engine.resize("job", 1, FAST, 1)


def test_one_device_takes_its_declared_time() -> None:
    world = World(TrainingTruth(batch=32, samples=80, epochs=3))  # 32, 32 and 16 samples a pass
    world.launch(FAST)
    full, short = 0.006 + 32 * 0.003, 0.006 + 16 * 0.003
    world.wait(3 * (2 * full + short) - 1e-6)
    assert world.engine.status("job", 1).phase == "running"
    world.wait(2e-6)
    status = world.engine.status("job", 1)
    assert status.phase == "ended"
    assert status.ended is not None
    assert (status.ended.end, status.ended.figures["samples"]) == ("finished", 240)
    assert status.spans[0]["steps"] == 9


def test_several_are_measured_and_then_split_optimally() -> None:
    world = World()
    world.launch(ALL)
    even = model(ALL).step_seconds(even_split(model(ALL), 32).local_batches)
    world.wait((WARM_UP + PROBE) * even - 1e-6)
    before = world.engine.status("job", 1)
    assert before.progress["step"] == WARM_UP + PROBE - 1
    assert not (before.knowledge or {})["lines"]
    world.wait((1 + SETTLE + PROBE) * 2 * even)
    after = world.engine.status("job", 1)
    lines = (after.knowledge or {})["lines"]
    assert lines["type slow"][0][:2] == pytest.approx([0.004, 0.003], rel=1e-6)
    assert lines["type fast"][1][:2] == pytest.approx([0.004, 0.002], rel=1e-6)
    best = integer_split(model(ALL), 32)
    assert after.progress["local_batches"] == list(best.local_batches)
    assert after.progress["step_seconds"] == pytest.approx(best.step_seconds, rel=1e-9)
    assert after.progress["predicted_step_seconds"] == pytest.approx(best.step_seconds, rel=1e-6)


def test_an_old_resize_does_nothing() -> None:
    world = World()
    world.launch(FAST)
    world.wait(1.0)
    world.engine.resize("job", 1, BOTH, 2)
    world.engine.resize("job", 1, ALL, 1)
    world.wait(1.0)
    status = world.engine.status("job", 1)
    assert (status.request, status.devices) == (2, ("a/fast-0", "b/slow-0"))
    assert status.wanted == status.devices


def test_it_trains_on_until_newcomers_are_there() -> None:
    world = World(overheads=Overheads(worker=2.0, cores=1, switch=0.03))
    world.launch(FAST)
    world.wait(3.0)
    steps = world.engine.status("job", 1).progress["step"]
    assert steps > 0
    world.engine.resize("job", 1, ALL, 1)  # three newcomers on one core
    world.wait(5.9)
    status = world.engine.status("job", 1)
    assert status.devices == ("a/fast-0",)
    assert status.progress["step"] > steps
    world.wait(1.0)
    first, second = world.engine.status("job", 1).spans
    assert len(second["devices"]) == 4
    assert second["since"] - first["until"] == pytest.approx(0.03)
    assert first["steps"] == second["first_step"]


def test_a_job_that_moves_altogether_keeps_one_member_for_its_state() -> None:
    world = World()
    world.launch(FAST)
    world.wait(1.0)
    world.engine.resize("job", 1, devices("b/slow-0", "b/slow-1"), 1)
    world.wait(3.0)
    status = world.engine.status("job", 1)
    assert [len(span["devices"]) for span in status.spans] == [1, 3, 2]
    assert status.spans[1]["devices"][0] == "a/fast-0"
    assert status.devices == ("b/slow-0", "b/slow-1")


def test_saved_it_goes_on_where_it_was() -> None:
    world = World()
    world.launch(BOTH)
    world.wait(2.0)
    world.engine.stop("job", 1, save=True, grace=30.0)
    with pytest.raises(StavesError, match="still runs"):
        world.launch(FAST, attempt=2)
    world.wait(1.0)
    first = world.engine.status("job", 1)
    assert first.ended is not None
    assert first.ended.end == "saved"
    world.launch(FAST, attempt=2)
    second = world.engine.status("job", 2)
    assert second.progress["step"] == first.progress["step"]
    assert second.knowledge == first.knowledge


@pytest.mark.parametrize(("save", "grace"), [(False, 30.0), (True, 0.01)])
def test_stopped_without_a_checkpoint_it_begins_anew(save: bool, grace: float) -> None:
    world = World()
    world.launch(FAST)
    world.wait(1.0)
    world.engine.stop("job", 1, save=save, grace=grace)
    world.wait(0.02)
    ended = world.engine.status("job", 1).ended
    assert ended is not None
    assert ended.end == "stopped"
    world.launch(FAST, attempt=2)
    assert world.engine.status("job", 2).progress["step"] == 0


def test_launched_twice_it_runs_once() -> None:
    world = World()
    world.launch(FAST)
    world.wait(2.0)
    step = world.engine.status("job", 1).progress["step"]
    world.launch(BOTH)
    status = world.engine.status("job", 1)
    assert (status.progress["step"], status.devices) == (step, ("a/fast-0",))


def test_devices_of_unknown_speed_are_refused() -> None:
    cluster = parse_cluster("nodes: [{name: x, devices: {local-cpu: 1}}]")
    engine = SimulatedEngine(cluster, {"job": LONG}, Overheads(), lambda: 0.0)
    with pytest.raises(InputError, match="how fast"):
        engine.launch(Launch("job", 1, "", cluster.devices(), Path(), {}))


NAMES = [device.name for device in ALL]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 3.0), st.lists(st.sampled_from(NAMES), min_size=1, unique=True)),
        max_size=6,
    ),
    st.integers(1, 7),
)
def test_looking_changes_nothing_and_every_sample_is_trained(
    changes: list[tuple[float, list[str]]], looks: int
) -> None:
    """Whatever it is told, it ends with all samples trained, however often somebody looks."""
    costs = Overheads(start=0.7, worker=0.4, cores=2, hear=0.05, switch=0.03, end=0.1)
    ends = []
    for between in (1, looks):
        world = World(overheads=costs)
        world.launch(FAST)
        for request, (seconds, names) in enumerate(changes, 1):
            for _ in range(between):
                world.wait(seconds / between)
                world.engine.status("job", 1)
            world.engine.resize("job", 1, devices(*names), request)
        world.wait(1000.0)
        ends.append(world.engine.status("job", 1))
    one, other = ends
    assert one.ended is not None
    assert one.ended.end == "finished"
    assert one.progress["samples"] == one.progress["total_samples"] == 12800
    assert sum(span["steps"] for span in one.spans) == one.progress["step"] == 400
    assert [s["devices"] for s in one.spans] == [s["devices"] for s in other.spans]
    for mine, others in zip(one.spans, other.spans, strict=True):
        assert mine["since"] == pytest.approx(others["since"], abs=1e-6)
        assert mine["steps"] == others["steps"]
