"""Beliefs with a declared error: off in what is told, and in nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest

from staves.errors import InputError
from staves.scheduling import Decision, Policy, View
from staves.simulation import Experiment, Submission, Workload, replay, run, submissions
from staves.simulation._erring import erring
from tests.simulation import small
from tests.simulation.test_replay import CLUSTER, workload

APPLICATIONS = {"small": small.application({"a": 1.0, "b": 0.4})}
TABLE = np.array([[1, 0], [2, 0], [0, 1], [1, 1], [3, 2]])


def job() -> Submission:
    requests = Workload("w", workload(1).requests[:1])
    return submissions(requests, APPLICATIONS, CLUSTER, "adaptive")[0]


def factors(error: float, seed: int, number: int = 0) -> np.ndarray:
    truth = job()
    told = erring(truth, error, seed, number).work.rates(0)(TABLE)
    return np.asarray(told / truth.work.rates(0)(TABLE))


def test_the_error_is_one_of_the_set_of_types_of_a_job() -> None:
    off = factors(0.3, 7)
    assert off[0] == pytest.approx(off[1])
    assert off[3] == pytest.approx(off[4])
    assert len(set(off.round(9).tolist())) == 3
    assert np.array_equal(off, factors(0.3, 7))
    assert not np.allclose(off, factors(0.3, 8))
    assert not np.allclose(off, factors(0.3, 7, number=1))


def test_its_logarithm_has_the_declared_deviation() -> None:
    drawn = np.log([factors(0.2, seed)[0] for seed in range(400)])
    assert abs(drawn.mean()) < 0.04  # four times the mean's own deviation
    assert drawn.std() == pytest.approx(0.2, rel=0.15)


def test_the_truth_stays() -> None:
    """A policy that does not look at rates does not notice."""

    class All(Policy):
        name = "all"

        def decide(self, view: View) -> Decision:
            first = view.jobs[0]
            return Decision({first.id: view.capacity})

    def ended(error: float) -> list[float | None]:
        jobs = submissions(workload(3), APPLICATIONS, CLUSTER, "adaptive")
        jobs = [erring(one, error, 0, n) for n, one in enumerate(jobs)]
        return [result.finished for result in replay(All(), CLUSTER, jobs).jobs]

    assert ended(0.5) == ended(0.0)


def experiment(error: float, beliefs: str = "oracle") -> Experiment:
    return Experiment(
        "sia",
        CLUSTER,
        workload(3, 12),
        APPLICATIONS,
        beliefs=beliefs,  # type: ignore[arg-type]
        belief_error=error,
    )


def test_policies_decide_by_what_they_are_told_and_bounds_by_what_is() -> None:
    told, off = run(experiment(0.0)), run(experiment(1.0))
    assert told["jobs"] != off["jobs"]
    name = "contention_free_jct_seconds"
    assert told["summary"][name] == off["summary"][name]
    assert run(experiment(1.0))["jobs"] == off["jobs"]


@pytest.mark.parametrize("error", [-0.1, math.nan, math.inf])
def test_an_error_must_be_a_deviation(error: float) -> None:
    with pytest.raises(InputError, match="error of beliefs"):
        experiment(error)


def test_what_was_learned_errs_by_itself() -> None:
    with pytest.raises(InputError, match="oracle"):
        experiment(0.1, "learned")
