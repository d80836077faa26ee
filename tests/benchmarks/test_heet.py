from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.heet.judging import ALONE, alone, judged, over_seeds, ratios
from benchmarks.heet.page import page
from benchmarks.heet.runs import Runs
from benchmarks.heet.sections import (
    ABLATION,
    AVERAGE,
    COMPARED,
    MAKESPAN,
    MIXING,
    P99,
    ROBUST,
    SWEEP,
    Gate,
)
from benchmarks.heet.settings import Made, OneType, Setting
from benchmarks.heet.workloads import TUNING, Workloads, small_cluster
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import StavesError
from staves.scheduling import Heet
from staves.simulation import generate, synthetic_applications
from staves.testing import random_view
from tests.benchmarks.test_field import DATA
from tests.benchmarks.test_field import run as field_run

WORKLOADS = ("philly/workload-3", "saturn/workload-3", "newtrace/workload-1")


def run(setting: str, workload: str, hours: float, seed: int = 0) -> dict[str, Any]:
    return {**field_run(setting, workload, hours), "seed": seed}


def runs(**hours: float) -> list[dict[str, Any]]:
    """Return a run of each setting on each workload; times double from one to the next."""
    return [
        run(setting, workload, time * 2**index)
        for setting, time in hours.items()
        for index, workload in enumerate(WORKLOADS)
    ]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_one_type_a_job_is_what_heet_does_where_nobody_may_mix(seed: int) -> None:
    view = random_view(seed)
    unmixed = replace(view, jobs=tuple(replace(job, mix=False) for job in view.jobs))
    decision = OneType().decide(view)
    assert decision.chosen == Heet().decide(unmixed).chosen
    assert all(
        sum(count > 0 for count in counts) == 1
        for job in view.jobs
        if not job.pinned and (counts := decision.chosen.get(job.id)) is not None
    )


def test_no_two_settings_share_a_name() -> None:
    for group in ((*COMPARED, *ABLATION, *ROBUST, *SWEEP), MIXING):
        of_name: dict[str, Setting] = {}
        for one in group:
            assert of_name.setdefault(one.name, one) == one


def test_gates_are_held_against_medians_of_several() -> None:
    found = runs(heet=1.0, afs=2.0, themis=3.0, gavel=10.0)
    gates = [Gate("heet", ("afs", "themis", "gavel"), {AVERAGE: 0.4, P99: 0.3})]
    average, tail = judged(found, gates)
    assert average["over"] == "median of afs, themis, gavel"
    assert average["ratio"]["value"] == pytest.approx(1 / 3)
    assert average["holds"]
    assert not tail["holds"]
    assert average["by_trace"]["saturn"]["value"] == pytest.approx(1 / 3)


def test_a_figure_of_several_seeds_is_their_mean() -> None:
    drawn = [run("heet", WORKLOADS[0], hours, seed) for seed, hours in enumerate((1.0, 2.0, 6.0))]
    (found,) = over_seeds(drawn)
    assert found["summary"][MAKESPAN] == 3 * 3600
    assert found["seed"] == 0


def test_the_bound_stands_beside_the_settings() -> None:
    found = runs(sia=1.0)
    bound = ratios([*found, *alone(found)], "sia")[ALONE]
    assert bound["ratio"][AVERAGE]["value"] == pytest.approx(0.1 / 2)
    assert bound["ratio"][P99] is None


def test_the_page_says_what_was_reported_and_what_holds() -> None:
    found = runs(sia=2.0, heet=1.0)
    part = {
        "workloads": list(WORKLOADS),
        "ratios": ratios(found, "sia"),
        "gates": judged(found, [Gate("heet", ("sia",), {AVERAGE: 0.7, MAKESPAN: 0.4})]),
    }
    document = {"command": "python", "reported": list(WORKLOADS), "at_hand": 15}
    fewer = {"workloads": [WORKLOADS[0]], "ratios": ratios(found, "heet")}
    text = page({**document, "parts": {"adaptive": part, "ablation": fewer}})
    assert text.count("On fewer workloads: philly/workload-3.") == 1
    assert "3 of the 15 reported workloads (1 of Philly, 1 of Helios, 1 of newTrace)" in text
    assert all(name in text for name in TUNING)
    assert "| heet | sia | average JCT | 0.700 | 0.500 (0.500-0.500) | yes |" in text
    assert "| heet | sia | makespan | 0.400 | 0.500 (0.500-0.500) | **no** |" in text
    assert text.index("| heet |") < text.index("| sia |")


def synthetic(name: str) -> Made:
    cluster = small_cluster()
    applications = synthetic_applications(tuple(cluster.configuration))
    return cluster, replace(generate(5, applications, 0), name=name), applications


def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    rows = (Setting("heet"), Setting("fifo, twice", "fifo", failure_hours=2.0, seeds=2))
    first = Runs(kept).of("here", rows, ["made/up"], synthetic)
    assert [(one["policy"], one["seed"]) for one in first] == [
        ("heet", 0),
        ("fifo, twice", 0),
        ("fifo, twice", 1),
    ]
    before = kept.read_text()

    def unwanted(name: str) -> Made:
        raise AssertionError(name)

    assert Runs(kept).of("here", rows, ["made/up"], unwanted) == first
    assert kept.read_text() == before


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(StavesError, match="no workload of philly in"):
        Workloads(tmp_path)


@pytest.mark.skipif(
    not (DATA / "NO-LICENCE-STATED" / "sia").is_dir(), reason=f"Sia's traces are not in {DATA}"
)
def test_no_tuning_workload_is_reported() -> None:
    there = Workloads(DATA)
    assert len(there.reported()) == 15
    assert not set(TUNING) & set(there.reported())
    assert there.reported(1) == ["philly/workload-3", "saturn/workload-3", "newtrace/workload-1"]
    cluster, workload, applications = there.thinned("philly/workload-3", 4)
    assert len(workload.requests) == 40
    most = max(applications[one.application].most_devices for one in workload.requests)
    assert all(count < min(most, cluster.total) for count in cluster.configuration.values())
