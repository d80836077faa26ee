from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.field import TRACES, compared, measure, page, table

from staves.errors import StavesError

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def run(policy: str, workload: str, hours: float, finished: int = 2) -> dict[str, Any]:
    seconds = hours * 3600
    return {
        "policy": policy,
        "workload": workload,
        "job_kind": "elastic",
        "seed": 0,
        "summary": {
            "jobs": 2,
            "finished": finished,
            "cpu_seconds": 60.0,
            "average_jct_seconds": seconds,
            "p50_jct_seconds": seconds,
            "p99_jct_seconds": seconds,
            "makespan_seconds": seconds,
            "device_hours_per_job": 1.0,
            "contention_free_jct_seconds": 360.0,
            "finish_time_fairness": {"worst": 2.0, "unfair_share": 0.25},
            "deadlines": {"share": None},
        },
    }


RUNS = [
    run(policy, f"{trace}/workload-{number}", hours * number)
    for policy, hours in (("pollux", 2.0), ("sia", 1.0))
    for trace in ("philly", "saturn", "newtrace")
    for number in (1, 2, 3)
]


def test_the_best_comes_first_with_medians_ranges_and_ratios() -> None:
    rows = [row.split(" | ") for row in table(compared(RUNS, "pollux")).splitlines()]
    assert [row[0] for row in rows[2:]] == ["| `sia`", "| `pollux`", "| *every job alone*"]
    assert rows[2][1] == "2.00 (1.00-3.00)"
    assert rows[2][4] == "0.500 (0.500-0.500)"
    assert rows[4][1] == "0.10 (0.10-0.10)"


def test_a_page_says_how_much_was_run_and_where_orders_hold() -> None:
    made = {
        "kinds": {"elastic": compared(RUNS, "pollux")},
        "cpu_seconds": 60.0 * len(RUNS),
        "workloads_at_hand": {"philly": 5, "saturn": 7, "newtrace": 7},
        "runs": RUNS,
    }
    text = page(made, ["pollux", "sia"], "python -m benchmarks.field --page PAGE")
    assert "Written by `python -m benchmarks.field --page PAGE`" in text
    assert "Minutes of CPU: 18; all 19 would take about 38." in text
    assert "on 9 of the 19 workloads at hand, the first of each trace (3 of Philly" in text
    assert "* `sia` before `pollux`: on 9 of 9; 0.50 times its average completion time." in text
    assert "Left out: `pollux-genetic`" in text


def test_where_an_order_does_not_hold_the_page_says_why() -> None:
    runs = [
        run(policy, f"{trace}/workload-1", hours)
        for trace, late in (("philly", 2.0), ("saturn", 1.0), ("newtrace", 0.5))
        for policy, hours in (("sia", 1.0), ("pollux", late), ("gavel", 0.25), ("tiresias", 4.0))
    ]
    runs[-1]["summary"]["average_jct_seconds"] = 600.0
    made = {
        "kinds": {"adaptive": compared(runs, "sia")},
        "cpu_seconds": 60.0,
        "workloads_at_hand": {"philly": 1, "saturn": 1, "newtrace": 1},
        "runs": runs,
    }
    text = page(made, ["sia", "pollux", "gavel", "tiresias", "pollux-genetic"], "")
    assert (
        "* `sia` before `pollux`: **not on all**, 1 of 1 Philly, 0 of 1 Helios, 0 of 1 newTrace;"
        " 1.00 times its average completion time. Why: its paper compares adaptive jobs" in text
    )
    assert "`pollux` before `gavel`: **not on all**, 0 of 1 Philly, 0 of 1 Helios" in text
    assert "Why is not known." in text
    assert "Left out" not in text


def test_unfinished_jobs_are_no_average() -> None:
    with pytest.raises(StavesError, match="left 1 jobs of philly/workload-1 unfinished"):
        compared([run("pollux", "philly/workload-1", 1.0, finished=1)], "pollux")


@pytest.mark.skipif(
    not (DATA / "NO-LICENCE-STATED" / "sia").is_dir(), reason=f"Sia's traces are not in {DATA}"
)
def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    one = dict.fromkeys(TRACES, 1)
    first = measure(DATA, ["fifo"], ["elastic"], files_each=one, kept=kept)
    before = kept.read_text()
    assert len(before.splitlines()) == 3
    assert measure(DATA, ["fifo"], ["elastic"], files_each=one, kept=kept) == first
    assert kept.read_text() == before
