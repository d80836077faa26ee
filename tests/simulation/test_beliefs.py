"""What is learned: true where it was seen, and no better than what was told elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from staves.scheduling import Decision, View, doubt_of
from staves.scheduling.heet import Heet, Weights
from staves.simulation import Experiment, Request, Workload, run
from staves.simulation._curves import StepTable
from staves.simulation._product_work import FEWEST_JOBS, Learning, ProductWork
from staves.simulation._profile_work import ApplicationRates, ProfileWork
from staves.simulation._sia_work import SiaWork
from staves.simulation._work import Placement
from tests.simulation import small

TYPES = ("a", "b")


def shared(batch: int | None = None) -> ApplicationRates:
    return ApplicationRates(small.application({"a": 1.0, "b": 0.4}), TYPES, (4, 4), batch)


def sia() -> SiaWork:
    return SiaWork(small.application({"a": 1.0, "b": 0.4}), TYPES, (4, 4), 128)


def learning() -> Learning:
    return Learning(TYPES, (4, 4), 8)


def product(batch: int | None = None, past: Learning | None = None) -> ProductWork:
    return (past or learning()).work(shared(batch))


def trained(work: ProductWork, placement: Placement, phase: int = 0) -> ProductWork:
    work.rate(phase, placement)
    work.trained(phase)
    return work


def off(work: ProductWork, batch: int | None = None) -> float:
    """Return how far beliefs about several devices of one type are off, as a mean ratio."""
    rows = np.array([[n, 0] for n in range(2, 9)] + [[0, n] for n in range(2, 9)])
    truth = ProfileWork(shared(batch)).rates(0)(rows)
    return float(np.abs(np.log(work.rates(0)(rows) / truth)).mean())


PLACES: tuple[Placement, ...] = (((2,), ()), ((), (2,)), ((4,), ()), ((), (4,)), ((), (4, 4)))


@pytest.mark.parametrize("batch", [16, 128, None])
def test_profiles_on_one_device_are_known_from_the_start(batch: int | None) -> None:
    """What one device could not hold it accumulates, and that is known, too."""
    truth = ProfileWork(shared(batch)).rates(0)
    alone = np.eye(2, dtype=np.int64)
    assert product(batch).rates(0)(alone) == pytest.approx(truth(alone), rel=0.01)


def test_the_product_believes_what_it_has_measured_once_it_has_trained() -> None:
    work, truth = product(), ProfileWork(shared())
    row = np.array([[4, 0]])
    before = work.rates(1)(row)[0]
    assert work.rate(1, ((4,), ())) == truth.rate(1, ((4,), ()))
    assert work.rates(1)(row)[0] == before  # it may still be in its start pause
    assert not work.trained(1)
    after = work.rates(1)(row)[0]
    assert after == pytest.approx(truth.rates(1)(row)[0])
    assert before != pytest.approx(after)


@pytest.mark.parametrize("batch", [64, None])
def test_what_was_measured_tells_of_what_was_not(batch: int | None) -> None:
    row = np.array([[3, 0]])
    truth = ProfileWork(shared(batch)).rates(0)(row)
    before = product(batch).rates(0)(row)
    after = trained(product(batch), ((4,), ())).rates(0)(row)
    assert abs(np.log(after / truth)) < 2 / 3 * abs(np.log(before / truth))


def test_only_jobs_that_have_ended_tell_of_others() -> None:
    past = learning()
    running = [
        trained(trained(product(64, past), one), other)
        for one, other in zip(PLACES, reversed(PLACES), strict=True)
    ]
    assert len(running) >= FEWEST_JOBS
    before = off(product(64), 64)
    assert off(product(64, past), 64) == before
    for work in running:
        work.ended()
    assert off(product(64, past), 64) < before / 2


def test_jobs_that_never_exchanged_tell_nothing() -> None:
    past = learning()
    for _ in range(2 * FEWEST_JOBS):
        trained(product(64, past), ((1,), ())).ended()
    assert past.version == 0


def test_beliefs_are_the_same_object_until_something_new_is_known() -> None:
    """Policies take them for news."""
    past = learning()
    work = trained(product(64, past), ((4,), ()))
    first = work.rates(0)
    assert trained(work, ((4,), ())).rates(0) is first
    assert trained(work, ((2,), ())).rates(0) is not first
    second = work.rates(0)
    for _ in range(FEWEST_JOBS):
        trained(product(64, past), ((8,), ())).ended()
    assert work.rates(0) is not second


def test_unlike_devices_wait_for_the_slowest_links() -> None:
    """What a mixed set took is not put on the links of the faster type."""
    application = small.application({"a": 1.0, "b": 1.0})
    slow = {
        shape: replace(curve, step=curve.step + 9 * curve.sync, sync=10 * curve.sync)
        for shape, curve in application.tables["b"].shapes.items()
    }
    application = replace(
        application, tables={"a": application.tables["a"], "b": StepTable({}, slow)}
    )
    truth = ApplicationRates(application, TYPES, (4, 4), 64)
    past = learning()
    for _ in range(8):
        trained(trained(past.work(truth), ((4,), ())), ((), (4,))).ended()
    work = past.work(truth)
    before = work.rates(0)(np.array([[4, 0], [0, 4]]))
    trained(work, ((2,), (2,)))
    after = work.rates(0)(np.array([[4, 0], [0, 4], [2, 2]]))
    assert after[:2] == pytest.approx(before, rel=0.2)
    assert after[2] == pytest.approx(truth.epoch(0).at(((2,), (2,))))


def test_sia_progresses_by_the_truth_at_the_batch_that_it_believes_in() -> None:
    """No batch is better than the best of all whole ones."""
    work = sia()
    for devices, placement in ((1, ((1,), ())), (4, ((4,), ())), (8, ((4, 4), ()))):
        for phase, noise in enumerate(np.geomspace(1.0, 30.0, 3).tolist()):
            best = 0.0
            for passes in range(1, 9):
                for local in range(1, 65):
                    batch = devices * local * passes
                    step = passes * (small.FIXED + small.PER_SAMPLE * local)
                    step += small.SYNC * (devices - 1)
                    gain = (noise + 1) / (noise * 16 / batch + 1)
                    best = max(best, 16 * gain / step) if 16 <= batch <= 128 else best
            assert 0 < work.rate(phase, placement) <= best * (1 + 1e-9)
            work.trained(phase)
    assert work.rate(0, ((1,), (1,))) == 0.0  # it grants no unlike devices


def test_sia_chooses_anew_only_after_it_has_learned() -> None:
    work = sia()
    first = work.rate(2, ((4,), ()))
    assert work.rate(2, ((4,), ())) == first  # nothing was trained yet
    assert work.trained(2)
    assert work.rate(2, ((4,), ())) > first  # a larger batch, in an epoch of much noise
    assert not ProfileWork(shared()).trained(2)


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


def test_beliefs_say_how_sure_they_are() -> None:
    """What was measured is sure, one device is; more of the step is exchange, less is."""
    past = learning()
    rows = np.array([[1, 0], [2, 0], [4, 0], [0, 4]])
    work = product(64, past)
    doubt = doubt_of(work.rates(0))
    assert doubt is not None
    assert doubt(rows).tolist() == [0.0, 0.3, 0.3, 0.3], "nothing tells"
    after = doubt_of(trained(work, ((4,), ())).rates(0))
    assert after is not None
    stds = after(rows)
    assert stds[0] == stds[2] == 0
    assert 0 < stds[1] < 0.3
    assert stds[3] > 0


def test_a_policy_sees_how_sure_learned_beliefs_are_and_nothing_where_they_are_the_truth() -> None:
    seen: list[bool] = []

    class Watched(Heet):
        def decide(self, view: View) -> Decision:
            seen.extend(job.log_std is not None for job in view.jobs)
            return super().decide(view)

    jobs = Workload("w", (Request("one", 0.0, "small", 1, 32),))
    applications = {"small": small.application({"a": 1.0, "b": 0.4})}
    oracle = Experiment(
        "heet",
        small.cluster(a=1, b=1),
        jobs,
        applications,
        variant=Watched(Weights(caution=1.0)),
    )
    for experiment, sure in ((oracle, False), (replace(oracle, beliefs="learned"), True)):
        seen.clear()
        run(experiment)
        assert seen
        assert set(seen) == {sure}
