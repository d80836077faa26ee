"""The published setup, where the public traces lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from staves.scheduling import JobKind
from staves.simulation import SETUPS, Conditions, Experiment, material, run

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SIA = DATA / "NO-LICENCE-STATED" / "sia"

pytestmark = pytest.mark.skipif(
    not (SIA.is_dir() and (DATA / "pollux").is_dir()),
    reason=f"the public traces are not in {DATA}",
)

HOUR = 3600.0


def experiment(policy: str, workload: str, **options: str) -> Experiment:
    made = material(
        "sia-64",
        str(SIA / "workloads" / workload),
        [DATA / "pollux" / "traces", SIA / "traces"],
        SETUPS["sia"],
    )
    published = Conditions(free_moves=True)
    return Experiment(policy, *made, conditions=published, **options)  # type: ignore[arg-type]


def test_sia_lands_near_its_own_simulator() -> None:
    """An independent simulator with oracle beliefs: 0.466 / 7.0 / 14.4 h, 0.206 h alone."""
    told = run(experiment("sia", "philly/workload-1.csv"))["summary"]
    assert told["finished"] == 160
    assert told["average_jct_seconds"] / HOUR == pytest.approx(0.466, rel=0.05)
    assert told["p99_jct_seconds"] / HOUR == pytest.approx(7.0, rel=0.05)
    assert told["makespan_seconds"] / HOUR == pytest.approx(14.4, rel=0.05)
    assert told["contention_free_jct_seconds"] / HOUR == pytest.approx(0.206, rel=0.02)
    assert told["unmeasured_jobs"] == 0


@pytest.mark.parametrize("kind", ["adaptive", "elastic", "rigid"])
def test_every_kind_of_job_ends(kind: JobKind) -> None:
    done = run(experiment("srtf", "philly/workload-2.csv", kind=kind))
    assert done["summary"]["finished"] == done["summary"]["jobs"] == 160
    for job in done["jobs"]:
        assert job["finished"] > job["started"] >= job["submitted"]


@pytest.mark.parametrize("workload", ["saturn/workload-3.csv", "physical/phoebe_workload.csv"])
def test_other_files_are_read(workload: str) -> None:
    done = run(experiment("fifo", workload))["summary"]
    assert done["finished"] == done["jobs"] > 0
