"""Emulated devices keep to their declared times, or say that they could not."""

from __future__ import annotations

import pytest

from staves.hardware import DeviceProfile, Pace
from staves.training import Pacer, _pacing

PROFILE = DeviceProfile(Pace(0.004, 0.001), Pace(0.010, 0.002))  # 8 samples: 12 ms and 26 ms


class FakeTime:
    """Stands for the module `time`: only sleeping and working pass time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds
        self.slept += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(_pacing, "time", clock)
    return clock


def step(
    pacer: Pacer,
    fake: FakeTime,
    *,
    samples: int = 8,
    work: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> float:
    """Take a step of two buckets; return the seconds from its start to its last bucket."""
    start = fake.now
    pacer.begin(start)
    fake.work(work[0])
    pacer.forward(samples)
    fake.work(work[1])
    pacer.bucket(0.25)
    fake.work(work[2])
    pacer.bucket(1.0)
    taken = fake.now - start
    pacer.end(counted=True)
    return taken


@pytest.mark.parametrize(
    "work", [(0.0, 0.0, 0.0), (0.011, 0.006, 0.019), (0.0119, 0.0, 0.0194), (0.001, 0.002, 0.003)]
)
def test_work_that_is_in_time_takes_what_is_declared(
    fake: FakeTime, work: tuple[float, ...]
) -> None:
    pacer = Pacer(PROFILE)
    assert step(pacer, fake, work=work) == pytest.approx(0.012 + 0.026)
    assert (pacer.steps, pacer.missed) == (1, 0)


@pytest.mark.parametrize(
    ("work", "taken"),
    [
        ((0.013, 0.0, 0.0), 0.013 + 0.026),  # the forward pass: the backward starts later
        ((0.0, 0.0066, 0.0), 0.012 + 0.026),  # a bucket: the next one makes up for it
        ((0.0, 0.0, 0.020), 0.012 + 0.0265),
        ((0.020, 0.030, 0.030), 0.080),
    ],
)
def test_late_work_is_one_missed_deadline(
    fake: FakeTime, work: tuple[float, ...], taken: float
) -> None:
    pacer = Pacer(PROFILE)
    assert step(pacer, fake, work=work) == pytest.approx(taken)
    assert (pacer.steps, pacer.missed) == (1, 1)
    step(pacer, fake)  # and the next step is counted anew
    assert (pacer.steps, pacer.missed) == (2, 1)


def test_the_first_steps_are_not_counted(fake: FakeTime) -> None:
    pacer = Pacer(PROFILE)
    pacer.begin(fake.now)
    fake.work(1.0)
    pacer.forward(8)
    pacer.end(counted=False)
    assert (pacer.steps, pacer.missed) == (0, 0)
    step(pacer, fake)
    assert (pacer.steps, pacer.missed) == (1, 0)


def test_a_device_without_samples_takes_its_fixed_times(fake: FakeTime) -> None:
    pacer = Pacer(PROFILE)
    assert step(pacer, fake, samples=0) == pytest.approx(0.014)
    assert pacer.missed == 0


def test_a_floor_holds(fake: FakeTime) -> None:
    pacer = Pacer(DeviceProfile(Pace(0.001, 0.001, floor=0.02), Pace(0.0, 0.001)))
    assert step(pacer, fake, samples=3) == pytest.approx(0.023)


def test_micro_steps_follow_one_another(fake: FakeTime) -> None:
    pacer = Pacer(PROFILE)
    start = fake.now
    pacer.begin(start)
    for samples in (8, 8, 0):
        fake.work(0.003)
        pacer.forward(samples)
        fake.work(0.001)
        pacer.backward()
    pacer.forward(4)
    pacer.bucket(1.0)
    pacer.end(counted=True)
    assert fake.now - start == pytest.approx(2 * 0.038 + 0.014 + 0.008 + 0.018)
    assert (pacer.steps, pacer.missed) == (1, 0)
