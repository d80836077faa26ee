"""Published systems in this simulator beside the simulators of their authors.

The figures are in hours; docs/simulation-fidelity.md says where each of them comes from.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median

import pytest

from staves.simulation import SETUPS, Conditions, Experiment, material, run

DATA = Path(__file__).parents[3] / "shared" / "data"
SIA = DATA / "NO-LICENCE-STATED" / "sia"
POLLUX = DATA / "pollux"

if not (SIA.is_dir() and POLLUX.is_dir()):
    pytest.skip("the public traces are not beside the checkout", allow_module_level=True)

T4_CLUSTER = "nodes:\n  - {count: 16, devices: {t4: 4}}\n"

PUBLISHED = {
    "sia": {
        "average": 0.543, "median": 0.231, "p99": 8.602, "makespan": 15.546,
        "bert": 0.295, "cifar10": 0.220, "deepspeech2": 0.817, "imagenet": 8.518, "yolov3": 3.815,
    },
    "gavel": {
        "average": 1.671, "median": 0.254, "p99": 28.219, "makespan": 35.659,
        "bert": 3.437, "cifar10": 0.505, "deepspeech2": 3.606, "imagenet": 28.688, "yolov3": 5.866,
    },
    "tiresias": {
        "average": 0.687, "median": 0.196, "p99": 13.368, "makespan": 23.264,
        "bert": 0.770, "cifar10": 0.375, "deepspeech2": 1.063, "imagenet": 13.099, "ncf": 0.042,
        "yolov3": 3.932,
    },
}  # fmt: skip
FEW_JOBS = {"p99", "makespan", "yolov3"}  # one to three jobs make these


@pytest.mark.parametrize("name", PUBLISHED)
def test_figures_are_near_those_of_the_authors(name: str, tmp_path: Path) -> None:
    if name == "tiresias":
        (tmp_path / "t4.yaml").write_text(T4_CLUSTER)
        there = str(tmp_path / "t4.yaml")
        jobs, profiles, setup = POLLUX / "workloads", [POLLUX / "traces"], SETUPS["pollux"]
    else:
        there, setup = "sia-64", SETUPS["sia"]
        jobs, profiles = SIA / "workloads" / "philly", [POLLUX / "traces", SIA / "traces"]
    cluster, workload, applications = material(there, str(jobs / "workload-1.csv"), profiles, setup)
    done = run(
        Experiment(
            name,
            cluster,
            workload,
            applications,
            beliefs="learned",
            conditions=Conditions(free_moves=True),
        )
    )
    hours = {
        request.name: (job["finished"] - job["submitted"]) / 3600
        for request, job in zip(workload.requests, done["jobs"], strict=True)
    }
    summary = done["summary"]
    got = {
        "average": fmean(hours.values()),
        "median": median(hours.values()),
        "p99": summary["p99_jct_seconds"] / 3600,
        "makespan": max(job["finished"] for job in done["jobs"]) / 3600,
    }
    for application in {request.application for request in workload.requests}:
        got[application] = fmean(
            hours[r.name] for r in workload.requests if r.application == application
        )
    assert got.keys() == PUBLISHED[name].keys()
    for key, figure in PUBLISHED[name].items():
        assert got[key] == pytest.approx(figure, rel=0.2 if key in FEW_JOBS else 0.1), key
