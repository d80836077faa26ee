"""What is learned: true where it was seen, and no better than what was told elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from staves.estimation import Point, fit_throughput
from staves.simulation import Experiment, Request, Workload, run
from staves.simulation._product_work import ProductWork
from staves.simulation._profile_work import ApplicationRates, ProfileWork
from staves.simulation._sia_work import SiaWork, one_device_points
from tests.simulation import small

TYPES = ("a", "b")


def shared(batch: int | None = None) -> ApplicationRates:
    return ApplicationRates(small.application({"a": 1.0, "b": 0.4}), TYPES, (4, 4), batch)


def test_profiles_on_one_device_are_known_from_the_start() -> None:
    """The curve is a line of the batch, and both estimators fit lines."""
    truth = ProfileWork(shared(32)).rates(0)
    alone = np.eye(2, dtype=np.int64)
    for work in (SiaWork(shared(32)), ProductWork(shared(32))):
        assert work.rates(0)(alone) == pytest.approx(truth(alone), rel=0.02)


def test_the_product_believes_what_it_has_measured() -> None:
    work, truth = ProductWork(shared()), ProfileWork(shared())
    row = np.array([[4, 0]])
    before = work.rates(1)(row)[0]
    assert work.rate(1, ((4,), ())) == truth.rate(1, ((4,), ()))
    after = work.rates(1)(row)[0]
    assert after == pytest.approx(truth.rates(1)(row)[0])
    assert before != pytest.approx(after)


def test_sia_progresses_by_the_truth_at_the_batch_that_it_believes_in() -> None:
    """No batch is better than the oracle's; one more point for each placement and batch."""
    work, truth = SiaWork(shared()), ProfileWork(shared())
    for placement in (((1,), ()), ((4,), ()), ((), (4,)), ((4, 4), ())):
        for phase in range(3):
            assert 0 < work.rate(phase, placement) <= truth.rate(phase, placement) * (1 + 1e-9)
    assert work.rate(0, ((1,), (1,))) == 0.0  # it grants no unlike devices


def test_sia_projects_a_type_by_its_speed_on_one_device() -> None:
    work = SiaWork(shared())
    work.rate(0, ((4,), ()))
    rates = work.rates(0)
    a1, a4, b1, b4 = rates(np.array([[1, 0], [4, 0], [0, 1], [0, 4]]))
    assert b4 / b1 == pytest.approx(a4 / a1)


def test_sia_fits_again_only_its_own_type() -> None:
    application = shared()
    work = SiaWork(application)
    before = work.rates(0)(np.array([[0, 1]]))[0]
    work.rate(0, ((4,), ()))
    points = list(one_device_points(application)[0])
    assert len(points) == 4
    way = application.way(application.number(((4,), ())))
    seen = {(p.nodes, p.devices) for p in work.points(0)} - {(1, 1)}
    assert seen == {(1, 4)}
    assert fit_throughput(work.points(0)) != fit_throughput(points)
    assert len(way.batch)
    # The other type's own fit is what it was; its statistics are those of the batch that ran.
    assert work.points(1) == list(one_device_points(application)[1])
    assert before > 0
    assert all(isinstance(point, Point) for point in work.points(0))


def test_only_systems_that_learn_are_made_to() -> None:
    workload = Workload("w", tuple(Request(f"j{i}", 10.0 * i, "small", 1, 32) for i in range(8)))
    cluster = small.cluster(a=1, b=1)
    material = (cluster, workload, {"small": small.application({"a": 1.0, "b": 0.4}, epochs=80)})

    def times(policy: str, **options: str) -> list[float]:
        done = run(Experiment(policy, *material, **options))  # type: ignore[arg-type]
        return [job["jct_seconds"] for job in done["jobs"]]

    for policy in ("fifo", "srtf", "tiresias", "gavel"):
        assert times(policy, beliefs="learned") == times(policy)
    assert times("sia", beliefs="learned") != times("sia")
    assert all(times("heet", beliefs="learned"))
