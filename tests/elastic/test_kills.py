"""Workers are killed at random moments (rules 1 to 3, 13)."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.elastic.driver import Job, job, largest_error, result

LIMIT = 1e-9


def one_of(running: Job, chance: random.Random) -> int:
    return chance.choice(running.members())


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_two_killed_of_four(seed: int, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    chance = random.Random(seed)
    seconds = []
    with job(tmp_path, 4) as running:
        for _ in range(2):
            running.until_step(running.steps() + chance.randrange(5, 40))
            seconds.append(running.kill(one_of(running, chance)))
        running.finish()
        running.prove()
    error = largest_error(result(tmp_path), undisturbed)
    print(f"trained on after {[round(s, 3) for s in seconds]} s, {error=}")
    assert error <= LIMIT


@pytest.mark.soak
@pytest.mark.parametrize("world", [4, 6])
@pytest.mark.parametrize("seed", range(10))
def test_random_moments(world: int, seed: int, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """Two kills each; in every third run one survivor sits in user code for 10 s."""
    chance = random.Random(100 * world + seed)
    seconds = []
    with job(tmp_path, world) as running:
        for place in range(2):
            running.until_step(running.steps() + chance.randrange(3, 60))
            victim = one_of(running, chance)
            if place == 0 and seed % 3 == 0:
                survivors = [m for m in running.members() if m != victim]
                stalled = running.stall(chance.choice(survivors))
                timer = threading.Timer(10.0, stalled.unlink)
                timer.start()
                took = running.kill(victim) - 10.0
                timer.join()
            else:
                took = running.kill(victim)
            seconds.append(took)
        running.finish()
        running.prove()
    error = largest_error(result(tmp_path), undisturbed)
    print(f"world {world}: trained on after {[round(s, 3) for s in seconds]} s, {error=}")
    assert error <= LIMIT


@pytest.mark.soak
def test_rule_13_without_the_one_that_does_not_come(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """A survivor that sits in user code beyond `--grace` is ended; the rest re-form."""
    with job(tmp_path, 4, "--grace", "3") as running:
        running.until_step(10)
        running.stall(1)
        took = running.kill(3)
        assert 1 not in running.members()
        figures = running.finish()
        running.prove()
    print(f"re-formed without the stalled one after {took:.2f} s, grace 3 s")
    assert "is ended: it did not answer in time" in figures["stderr"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_random_histories(seed: int, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """Rescales and kills in any order, through three epochs, by real processes."""
    chance = random.Random(1000 + seed)
    events = []
    with job(tmp_path, 4) as running:
        for _ in range(4):
            running.until_step(running.steps() + chance.randrange(3, 30))
            if chance.random() < 0.5:
                count = chance.randrange(2, 5)
                running.scale(count)
                running.until_world(count)
                events.append(f"scale {count}")
            else:
                victim = one_of(running, chance)
                running.kill(victim)
                events.append(f"kill {victim}")
        running.finish()
        running.prove()
    error = largest_error(result(tmp_path), undisturbed)
    print(f"history {seed}: {', '.join(events)}; {error=}")
    assert error <= LIMIT
