"""The sampler: each sample once an epoch, in one order, whatever the ranks and their split."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.training import Cut, GlobalCursor, apportion, permutation


def random_split(source: random.Random, world: int, batch: int) -> list[int]:
    """Return `world` local batches that sum to `batch`; some may be 0."""
    edges = sorted(source.randint(0, batch) for _ in range(world - 1))
    return [stop - start for start, stop in pairwise([0, *edges, batch])]


def loaded(cursor: GlobalCursor, cut: Cut, micro_steps: int) -> list[int]:
    """Return what all ranks load in this step, rank after rank, by their micro-batches."""
    samples: list[int] = []
    for rank in range(len(cut.local_batches)):
        own = cut.micro_bounds(rank, micro_steps)
        assert len(own) == micro_steps
        assert (own[0][0], own[-1][1]) == cut.bounds(rank)
        for start, stop in own:
            samples += cursor.indices(cut.epoch, start, stop).tolist()
    return samples


def check_history(source: random.Random, length: int, seed: int, shuffle: bool) -> int:
    """Train three epochs with worlds, batches and splits at random; return the voided steps."""
    cursor = GlobalCursor(length, seed, shuffle=shuffle)
    voided = 0
    for epoch in range(3):
        seen: list[int] = []
        while True:
            world, batch = source.randint(1, 9), source.randint(1, 40)
            split = random_split(source, world, batch)
            cut = cursor.cut(split, epoch=cursor.epoch, start=cursor.position)
            if cut is None:
                break
            samples = loaded(cursor, cut, source.randint(1, 4))
            if source.random() < 0.25:  # the step is lost: its samples come again
                voided += 1
                continue
            cursor.commit(cut)
            seen += samples
        assert sorted(seen) == list(range(length))
        assert seen == permutation(seed, epoch, length, shuffle=shuffle).tolist()
        cursor.next_epoch()
    return voided


def test_two_hundred_histories() -> None:
    voided = 0
    for history in range(200):
        source = random.Random(history)
        voided += check_history(source, source.randint(1, 1000), history, shuffle=True)
    assert voided > 1000


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(), st.booleans())
def test_any_history(history: int, length: int, seed: int, shuffle: bool) -> None:
    check_history(random.Random(history), length, seed, shuffle)


@given(st.integers(1, 200), st.integers(1, 50))
def test_the_last_batch_is_short_or_left_out(length: int, batch: int) -> None:
    for drop_last in (False, True):
        cursor = GlobalCursor(length, 0, drop_last=drop_last)
        sizes = []
        while (cut := cursor.cut([batch], epoch=0, start=cursor.position)) is not None:
            cursor.commit(cut)
            sizes.append(cut.batch)
        assert len(sizes) == cursor.batches_per_epoch(batch)
        assert set(sizes[:-1]) <= {batch}
        assert sum(sizes) == (length // batch * batch if drop_last else length)


def test_a_permutation_depends_on_seed_and_epoch_alone() -> None:
    first = permutation(7, 3, 1000)
    assert first.dtype == np.int64
    assert (permutation(7, 3, 1000) == first).all()
    assert not (permutation(7, 4, 1000) == first).all()
    assert not (permutation(8, 3, 1000) == first).all()
    assert sorted(first.tolist()) == list(range(1000))
    # Fixed for good: a job that is resumed by a later version must go on in the same order.
    assert permutation(7, 3, 10).tolist() == [3, 5, 4, 7, 8, 0, 9, 2, 1, 6]


@given(st.integers(0, 5), st.integers(0, 5))
def test_seeds_of_any_size_are_good(seed: int, epoch: int) -> None:
    for big in (seed, -seed, seed + 2**63, seed - 2**80):
        assert sorted(permutation(big, epoch, 20).tolist()) == list(range(20))


def test_a_step_that_is_not_at_the_cursor_cannot_be_committed() -> None:
    cursor = GlobalCursor(100, 0)
    first = cursor.cut([4, 4], epoch=0, start=0)
    later = cursor.cut([4, 4], epoch=0, start=8)
    assert first is not None
    assert later is not None
    with pytest.raises(ValueError, match="epoch 0, sample 8 cannot be committed"):
        cursor.commit(later)
    assert cursor.position == 0
    cursor.commit(first)
    with pytest.raises(ValueError, match="the cursor is at epoch 0, sample 8"):
        cursor.commit(first)
    cursor.next_epoch()
    with pytest.raises(ValueError, match="epoch 0"):
        cursor.commit(later)
    assert (cursor.epoch, cursor.position) == (1, 0)


def test_an_empty_data_set_is_none() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        GlobalCursor(0, 0)


shares = st.lists(st.integers(0, 500), min_size=1, max_size=9).filter(any)


@given(shares, st.integers(0, 5000))
def test_apportion_rounds_every_share_and_keeps_the_sum(split: list[int], total: int) -> None:
    parts = apportion(split, total)
    assert sum(parts) == total
    for part, share in zip(parts, split, strict=True):
        exact = Fraction(share * total, sum(split))
        assert abs(part - exact) < 1
        assert part == exact or exact.denominator > 1
    if total <= sum(split):
        assert all(part <= share for part, share in zip(parts, split, strict=True))


@given(shares)
def test_apportion_of_the_whole_is_the_split(split: list[int]) -> None:
    assert apportion(split, sum(split)) == tuple(split)
    assert apportion(split, 0) == (0,) * len(split)


def test_apportion_deals_to_the_largest_remainders_then_the_lower_rank() -> None:
    assert apportion([1, 1, 1], 2) == (1, 1, 0)
    assert apportion([5, 3, 2], 5) == (3, 1, 1)
    assert apportion([1, 2], 1) == (0, 1)


@pytest.mark.parametrize(("split", "total"), [([], 1), ([0, 0], 1), ([2, -1], 1), ([1], -1)])
def test_apportion_refuses(split: list[int], total: int) -> None:
    with pytest.raises(ValueError, match="cannot cut"):
        apportion(split, total)
