"""Availability traces: which nodes are up when, and what that does to jobs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from staves.errors import InputError
from staves.hardware import Cluster, DeviceType, Node
from staves.scheduling import JobView, policy
from staves.simulation import Availability, Conditions, FluidWork, Submission, replay
from staves.simulation.readers import read_availability
from tests.simulation import small


def nodes(*sizes: dict[str, int]) -> Cluster:
    names = {name for devices in sizes for name in devices}
    return Cluster(
        {name: DeviceType(name) for name in names},
        tuple(Node(f"n{index}", devices) for index, devices in enumerate(sizes)),
    )


def test_nodes_are_up_in_their_order_as_far_as_devices_reach() -> None:
    trace = Availability("t", (0.0, 10.0, 20.0), {"a": (8, 3, 4)})
    found = trace.outages(small.cluster(a=2))
    assert [(one.at, one.node, one.up) for one in found] == [
        (10.0, 0, False),
        (10.0, 1, False),
        (20.0, 0, True),
    ]
    assert trace.at(-1.0) == {"a": 8}
    assert trace.at(10.0) == trace.at(19.9) == {"a": 3}
    assert trace.at(1e9) == {"a": 4}


def test_types_that_the_trace_does_not_name_stay() -> None:
    trace = Availability("t", (0.0,), {"a": (0,)})
    assert [one.node for one in trace.outages(small.cluster(a=1, b=1))] == [0]
    with pytest.raises(InputError, match="none of which is in the cluster"):
        trace.outages(small.cluster(b=1))


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(1, 8), min_size=1), min_size=1),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6),
    st.booleans(),
)
def test_never_more_is_up_than_is_there(
    sizes: list[dict[str, int]], counts: list[tuple[int, int]], any_type: bool
) -> None:
    """Replayed by hand: what is up fits, and the first node that is down would not."""
    names = ("any",) if any_type else ("a", "b")
    devices = {name: tuple(row[g] for row in counts) for g, name in enumerate(names)}
    trace = Availability("t", tuple(map(float, range(len(counts)))), devices)
    cluster = nodes(*sizes)
    if not any_type and not set(cluster.configuration) & {"a", "b"}:
        return
    events = trace.outages(cluster)
    up = [True] * len(sizes)
    for index in range(len(counts)):
        for one in events:
            if one.at == index:
                assert up[one.node] != one.up
                up[one.node] = one.up
        for name in names:
            wanted = [n.get(name, 0) if name != "any" else sum(n.values()) for n in sizes]
            used = sum(w for w, is_up in zip(wanted, up, strict=True) if is_up)
            assert used <= devices[name][index]
        first = next((n for n, is_up in enumerate(up) if not is_up), None)
        if first is not None:
            before = sizes[: first + 1]
            needs = {
                name: sum(n.get(name, 0) if name != "any" else sum(n.values()) for n in before)
                for name in names
            }
            assert any(needs[name] > devices[name][index] for name in names)


class OneDevice:
    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        rates: NDArray[np.float64] = np.minimum(configurations.sum(axis=1), 1).astype(np.float64)
        return rates


def test_a_job_waits_while_nothing_is_there() -> None:
    """100 s of work: 30 until all devices go, none until 80, the last checkpoint at the start."""
    job = JobView("j", 0.0, OneDevice())
    trace = Availability("t", (0.0, 30.0, 80.0), {"any": (4, 0, 4)})
    for checkpoint, finished in ((math.inf, 180.0), (10.0, 150.0)):
        conditions = Conditions(availability=trace, checkpoint_seconds=checkpoint)
        done = replay(
            policy("srtf"),
            small.cluster(a=1),
            [Submission(job, FluidWork(job.rates, 100.0))],
            conditions=conditions,
        )
        (result,) = done.jobs
        assert result.failures == 1
        assert result.finished == pytest.approx(finished)


class OnEight:
    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        rates: NDArray[np.float64] = (configurations.sum(axis=1) >= 8).astype(np.float64)
        return rates


@pytest.mark.parametrize("name", ["fifo", "srtf", "sia", "tiresias", "heet", "gavel"])
@pytest.mark.parametrize("left", [0, 4])
def test_what_can_never_run_again_ends_the_simulation(name: str, left: int) -> None:
    """Nodes go for good: jobs that need them do not finish, others do, and rounds have an end."""
    trace = Availability("t", (0.0, 30.0), {"any": (8, left)})
    large = JobView("large", 0.0, OnEight(), minimum=8, maximum=8, elastic=False)
    small_one = JobView("small", 0.0, OneDevice(), minimum=1, maximum=1)
    done = replay(
        policy(name),
        small.cluster(a=2),
        [Submission(job, FluidWork(job.rates, 1000.0)) for job in (large, small_one)],
        conditions=Conditions(availability=trace),
        most_decisions=5000,
    )
    assert [job.finished is not None for job in done.jobs] == [False, left > 0]


@pytest.mark.parametrize("name", ["fifo", "sia", "tiresias", "heet", "gavel"])
def test_a_job_waits_for_nodes_that_come_back_late(name: str) -> None:
    """For longer than the patience with what will never run: 3000 rounds of a minute."""
    away = 3000 * 60.0
    trace = Availability("t", (0.0, 30.0, 30.0 + away), {"any": (8, 0, 8)})
    job = JobView("j", 0.0, OneDevice())
    done = replay(
        policy(name),
        small.cluster(a=2),
        [Submission(job, FluidWork(job.rates, 1000.0))],
        conditions=Conditions(availability=trace),
        most_decisions=5000,
    )
    finished = done.jobs[0].finished
    assert finished is not None
    assert away + 30 < finished < away + 3000


def test_nodes_that_fail_all_the_time_do_not_keep_up_a_hope() -> None:
    """A job for more devices than there are, where a node is away half of the time."""
    job = JobView("j", 0.0, OnEight(), minimum=8, maximum=8, elastic=False)
    done = replay(
        policy("tiresias"),
        small.cluster(a=1),
        [Submission(job, FluidWork(job.rates, 1000.0))],
        conditions=Conditions(failure_seconds=300.0, repair_seconds=300.0),
        most_decisions=10_000,
    )
    assert done.jobs[0].finished is None


def test_drawn_failures_and_a_trace_exclude_each_other() -> None:
    trace = Availability("t", (0.0,), {"any": (4,)})
    with pytest.raises(InputError, match="not both"):
        Conditions(failure_seconds=10.0, availability=trace)


def test_repeated_states_and_times(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(
        ",Timestamp,A100_x,A100_y\n0,100,4,4\n1,160,4,4\n2,130,2,4\n3,200,1,1\n4,200,1,2\n"
    )
    trace = read_availability(file)
    assert trace.times == (0.0, 30.0, 60.0, 100.0)
    assert trace.devices == {"a100": (8, 6, 8, 3)}
    assert sorted(one.lines for one in trace.counted) == [1, 1]
