"""Whether a run that differs from virtual time is told from one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.learning import _declared
from benchmarks.training.against_paced import MIX, Paced, Replay, beside, learners, virtual

from staves.hardware import read_cluster
from staves.steptime import Communication

LINK = Communication((0.5, 1.0), (2e-3, 3e-3))
EVEN, BEST = (43, 43, 42), (78, 35, 15)
SPLITS: list[tuple[int, ...]] = [*[EVEN] * 6, *[BEST] * 6]


def made(steps: list[tuple[int, ...]], slower: float) -> Paced:
    """A run as virtual time says that it is, or one whose steps are longer by a factor."""
    blank = Paced(
        "128", 128 * len(steps), steps, [], [], [None] * len(steps), LINK, 0.0, False, 0.0
    )
    told = list(virtual(blank, _declared(read_cluster(MIX), LINK), Replay(steps)))
    seconds = [float("nan"), *(slower * step.seconds for step in told[1:])]
    return replace(blank, seconds=seconds, losses=[step.loss for step in told])


def test_a_run_beside_itself_and_beside_a_slower_one() -> None:
    model = _declared(read_cluster(MIX), LINK)
    run = made(SPLITS, 1.25)
    found = beside(run, model)
    assert [row["local_batches"] for row in found["medians"]] == [SPLITS[0], SPLITS[-1]]
    for row in found["medians"]:
        assert row["virtual_over_paced"] == pytest.approx(0.8)
        assert row["virtual"] == pytest.approx(model.step_seconds(row["local_batches"]))
    assert found["loss"]["largest_difference"] == 0.0
    other = replace(run, losses=[run.losses[0] + 0.01, *run.losses[1:]])
    assert beside(other, model)["loss"]["largest_difference"] == pytest.approx(0.01)


def test_other_splits_are_another_loss() -> None:
    """Dropout draws by where a share begins: a replay of other splits would not go unnoticed."""
    model = _declared(read_cluster(MIX), LINK)
    run = replace(made(SPLITS, 1.0), splits=SPLITS[::-1])
    assert beside(run, model)["loss"]["largest_difference"] > 1e-4


def test_a_learner_of_its_own_finds_the_declared_optimum() -> None:
    model = _declared(read_cluster(MIX), LINK)
    found = learners(made(SPLITS[:1] * 30, 1.0), model)
    assert [change["step"] for change in found["virtual"]["changes"]][:3] == [0, 13, 24]
    assert found["virtual"]["predicted_step_seconds"] == pytest.approx(
        found["virtual"]["declared_step_seconds"], rel=1e-3
    )
