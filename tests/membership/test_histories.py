"""Random histories of jobs under faults, each from one seed: `World(seed).run()` repeats it."""

from __future__ import annotations

import pytest
from tests.membership.world import World


def run(seeds: range) -> dict[str, int]:
    """Run the histories; what they had in them, so that a test can see that they were not empty."""
    seen = {"commits": 0, "restarts": 0, "kills": 0, "failed": 0}
    for seed in seeds:
        try:
            world = World(seed).run()
        except Exception as error:
            raise AssertionError(f"history {seed} (World({seed}).run()): {error!r}") from error
        seen["commits"] += world.commits
        seen["restarts"] += world.restarts
        seen["kills"] += world.kills
        seen["failed"] += world.failure is not None
    return seen


@pytest.mark.parametrize("part", range(10))
def test_histories_keep_every_sample_and_come_to_their_end(part: int) -> None:
    seen = run(range(part * 500, (part + 1) * 500))
    assert seen["kills"] > 2 * 500
    assert seen["commits"] > 3 * 500
    assert 0 < seen["failed"] < 100
    assert seen["restarts"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("part", range(50))
def test_soak_histories(part: int) -> None:
    run(range(100_000 + part * 1000, 100_000 + (part + 1) * 1000))
