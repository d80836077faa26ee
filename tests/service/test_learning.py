"""What past jobs teach: from when on, when anew, and beside the turns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from staves.hardware import Cluster, DeviceType, Node
from staves.service import _learning
from staves.service._learning import Learning, ladder_of, node_sizes
from staves.service._spec import JobSpec
from staves.service._states import Ended, Grant
from staves.service._store import Store

TYPES = {name: DeviceType(name) for name in ("t4", "v100")}
CLUSTER = Cluster(TYPES, (Node("a", {"t4": 2, "v100": 1}), Node("b", {"v100": 4})))
SPEC = JobSpec("digits", "python train.py", Path("/work"), Path("/usr/bin/python3"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as opened:
        yield opened


def past_job(store: Store, *counts: int) -> None:
    """Have a job come, train on so many v100 one after another, and end."""
    job = store.submit(SPEC, "abc", "ann", now=1.0)
    store.apply(job, Grant(("b/v100-0",)), now=1.0)
    spans = [
        {
            "devices": [f"b/v100-{n}" for n in range(count)],
            "since": 1.0,
            "local_batches": [32, *[0] * (count - 1)],
            "step_seconds": 0.5,
        }
        for count in counts
    ]
    store.observe(job, attempt=1, stretches=spans)
    store.apply(job, Ended("finished"), now=2.0)


class Later(Executor):
    """Runs nothing until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append(lambda: self._run(future, lambda: fn(*args, **kwargs)))
        return future

    def _run(self, future: Future[Any], fn: Callable[[], Any]) -> None:
        try:
            future.set_result(fn())
        except Exception as error:
            future.set_exception(error)


def test_the_ladder_is_of_packed_devices() -> None:
    assert node_sizes(CLUSTER) == (2, 4)
    shapes = {(c.device_type, c.devices, c.nodes) for c in ladder_of(CLUSTER)}
    assert {("t4", 2, 1), ("t4", 3, 2), ("v100", 4, 1), ("v100", 5, 2), ("t4", 7, 4)} <= shapes
    assert max(devices for _, devices, _ in shapes) == CLUSTER.total


def test_few_jobs_or_few_cells_teach_nothing(store: Store) -> None:
    learning = Learning(store)
    assert learning.model(CLUSTER) is None
    for counts in ((1, 2, 4), (1, 2, 4), (1, 2), (2, 2, 2)):
        past_job(store, *counts)
    assert learning.model(CLUSTER) is None
    past_job(store, 1, 2, 3)
    model = learning.model(CLUSTER)
    assert model is not None
    assert set(ladder_of(CLUSTER)) <= set(model.space.cells)
    assert learning.model(CLUSTER) is model


def test_it_learns_anew_when_a_tenth_more_have_ended_or_the_cluster_is_another(
    store: Store,
) -> None:
    learning = Learning(store)
    for _ in range(11):
        past_job(store, 1, 2, 4)
    model = learning.model(CLUSTER)
    past_job(store, 1, 2, 4)
    assert learning.model(CLUSTER) is model
    past_job(store, 1, 2, 4)
    newer = learning.model(CLUSTER)
    assert newer is not model
    smaller = Cluster(TYPES, (Node("a", {"t4": 2}),))
    other = learning.model(smaller)
    assert other is not None
    assert set(ladder_of(smaller)) <= set(other.space.cells)


def test_turns_wait_for_no_fit(store: Store) -> None:
    later = Later()
    learning = Learning(store, later)
    for _ in range(3):
        past_job(store, 1, 2, 4)
    assert learning.model(CLUSTER) is None
    assert not learning.learned()
    for _ in range(3):
        past_job(store, 1, 2, 4)
    assert learning.model(CLUSTER) is None
    assert len(later.waiting) == 1, "one at a time"
    later.waiting.pop()()
    assert learning.learned()
    assert not learning.learned(), "it is said once"
    model = learning.model(CLUSTER)
    assert model is not None
    assert len(later.waiting) == 1, "and now of those that ended meanwhile"
    assert learning.model(CLUSTER) is model
    smaller = Cluster(TYPES, (Node("a", {"t4": 2}),))
    assert learning.model(smaller) is None, "it has not the cells of this one"
    later.waiting.pop()()
    assert learning.model(CLUSTER) not in (None, model)


def test_a_past_that_cannot_be_read_is_said_and_stops_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        past_job(store, 1, 2, 4)

    def unreadable(jobs: object) -> None:
        raise ValueError("what is\nthis")

    monkeypatch.setattr(_learning, "history_of", unreadable)
    learning = Learning(store)
    with caplog.at_level(logging.ERROR):
        assert learning.model(CLUSTER) is None
    assert "cannot be learned from" in caplog.text
    assert learning.failure == "past jobs cannot be learned from: ValueError: what is\\nthis"


def test_a_fit_that_failed_is_told_until_one_succeeds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Later()
    learning = Learning(store, later)
    for _ in range(3):
        past_job(store, 1, 2, 4)

    def unreadable(jobs: object) -> None:
        raise ValueError("what is this")

    with monkeypatch.context() as patched:
        patched.setattr(_learning, "history_of", unreadable)
        learning.model(CLUSTER)
        assert learning.failure is None
        later.waiting.pop()()
        assert learning.learned()
    assert learning.failure == "past jobs cannot be learned from: ValueError: what is this"
    assert learning.model(CLUSTER) is None
    past_job(store, 1, 2, 4)
    learning.model(CLUSTER)
    later.waiting.pop()()
    assert learning.learned()
    assert learning.failure is None
    assert learning.model(CLUSTER) is not None
