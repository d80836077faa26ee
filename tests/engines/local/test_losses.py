from __future__ import annotations

from typing import Any

import pytest

from staves.engines.local import EpochLosses


def part(loss: float, samples: int, reached: int, *, epoch: int = 0, whole: bool = False) -> Any:
    kind = "epoch" if whole else "loss"
    return {"kind": kind, "epoch": epoch, "loss": loss, "samples": samples, "reached": reached}


def test_a_part_replaces_what_the_same_member_told_before() -> None:
    losses = EpochLosses()
    losses.take(0, 1, part(3.0, 10, 20))
    losses.take(1, 1, part(1.0, 10, 20))
    losses.take(0, 1, part(6.0, 30, 60, whole=True))
    assert losses.mean(0) == pytest.approx(7.0 / 40)
    assert losses.told(0) == 1


def test_of_a_lost_member_what_it_has_told_counts_and_the_share_is_said() -> None:
    losses = EpochLosses()
    losses.take(1, 1, part(2.0, 20, 50))  # and no more: it was killed
    losses.take(0, 1, part(6.0, 60, 100, whole=True))
    assert losses.mean(0) == pytest.approx(0.1)
    assert losses.covered(0) == pytest.approx(0.8)


def test_a_later_attempt_voids_what_an_earlier_one_told_of_the_epoch() -> None:
    losses = EpochLosses()
    losses.take(0, 1, part(1.0, 100, 100, whole=True))
    losses.take(0, 1, part(9.0, 50, 50, epoch=1))
    losses.take(5, 2, part(4.0, 80, 100, epoch=1, whole=True))
    assert losses.mean(0) == pytest.approx(0.01)
    assert losses.mean(1) == pytest.approx(0.05)
    assert losses.covered(1) == pytest.approx(0.8)


def test_an_epoch_that_nobody_has_finished_is_neither_first_nor_last() -> None:
    losses = EpochLosses()
    losses.take(0, 1, part(1.0, 100, 100, epoch=3, whole=True))
    losses.take(0, 1, part(9.0, 50, 50, epoch=4))
    assert (losses.first, losses.last) == (3, 3)
    assert losses.mean(7) is losses.covered(7) is None
