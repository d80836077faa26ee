"""Rescale and kill with the real sampler: each sample exactly once an epoch, in one order."""

from __future__ import annotations

import pytest
from tests.membership.stub import State
from tests.membership.world import World

from staves.membership import Commit, replay

pytest.importorskip("torch")
from staves.training._sampler import GlobalCursor, apportion, permutation


class SampledWorld(World):
    """The batch and its split change with every generation; the sampler cuts it."""

    def local_batches(self, commit: Commit, state: State) -> list[int]:
        speeds = [1 + (member * 7 + commit.generation) % 4 for member in commit.members]
        batch = 3 + commit.generation * 5 % 11
        cursor = GlobalCursor(self.length, self.seed)
        local_batches = apportion(speeds, batch)
        cut = cursor.cut(local_batches, epoch=state.epoch, start=state.position)
        assert cut is not None
        return list(cut.local_batches)


@pytest.mark.parametrize("seed", range(200))
def test_rescale_and_kill_through_sampler_and_membership(seed: int) -> None:
    world = SampledWorld(seed, epochs=3, gentle=True).run()
    cursor = GlobalCursor(world.length, seed)
    trained: dict[int, list[int]] = {}
    for step in replay(world.ledger.rows).steps:
        start = step.start
        for batch in step.local_batches:
            part = cursor.indices(step.epoch, start, start + batch)
            trained.setdefault(step.epoch, []).extend(part.tolist())
            start += batch
    assert sorted(trained) == [0, 1, 2]
    for epoch, samples in trained.items():
        assert samples == permutation(seed, epoch, world.length).tolist()
