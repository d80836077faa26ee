"""What is learned: true where it was seen, and no better than what was told elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from staves.simulation import Experiment, Request, Workload, run
from staves.simulation._product_work import ProductWork
from staves.simulation._profile_work import ApplicationRates, ProfileWork
from staves.simulation._sia_work import SiaWork
from tests.simulation import small

TYPES = ("a", "b")


def shared(batch: int | None = None) -> ApplicationRates:
    return ApplicationRates(small.application({"a": 1.0, "b": 0.4}), TYPES, (4, 4), batch)


def sia() -> SiaWork:
    return SiaWork(small.application({"a": 1.0, "b": 0.4}), TYPES, (4, 4), 128)


def test_profiles_on_one_device_are_known_from_the_start() -> None:
    """The curve is a line of the batch, and the product fits lines.

    At the reference batch: beyond it the published set-ups let one device accumulate.
    """
    truth = ProfileWork(shared(16)).rates(0)
    alone = np.eye(2, dtype=np.int64)
    assert ProductWork(shared(16)).rates(0)(alone) == pytest.approx(truth(alone), rel=0.02)


def test_the_product_believes_what_it_has_measured() -> None:
    work, truth = ProductWork(shared()), ProfileWork(shared())
    row = np.array([[4, 0]])
    before = work.rates(1)(row)[0]
    assert work.rate(1, ((4,), ())) == truth.rate(1, ((4,), ()))
    after = work.rates(1)(row)[0]
    assert after == pytest.approx(truth.rates(1)(row)[0])
    assert before != pytest.approx(after)


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
