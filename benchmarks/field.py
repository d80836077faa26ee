"""The field on all public workloads: `python -m benchmarks.field --data DIR [--page FILE]`.

DIR holds `pollux/traces` and `NO-LICENCE-STATED/sia/{traces,workloads}`, as their authors released
them. Every Philly, Helios (saturn) and newTrace workload there is played on 64 devices under every
policy but Pollux's genetic search, once with adaptive jobs and once with elastic jobs of a fixed
batch; all are told the truth. JSON on standard output, the tables on standard error, and as
Markdown in FILE. With `--kept RUNS` every run's summary is kept there as a line of JSON once it is
done, and what is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy loads: its threads spin

from benchmarks.compare import cell
from staves.errors import StavesError
from staves.scheduling import JobKind, policies
from staves.simulation import SETUPS, Conditions, Experiment, compare, material, run_all

TRACES = {"philly": "Philly", "saturn": "Helios", "newtrace": "newTrace"}
KINDS: Mapping[JobKind, str] = {
    "adaptive": "Adaptive jobs: any number of devices, the batch of greatest goodput",
    "elastic": "Elastic jobs: any number of devices, the batch that was asked for",
    "rigid": "Rigid jobs: the devices and the batch that were asked for",
}
GENETIC = "pollux-genetic"
LEFT_OUT = f"`{GENETIC}`, whose search takes seconds a decision; `pollux` has the same aim"
RATIOS = {
    "average_jct_seconds": "average JCT",
    "p99_jct_seconds": "p99 JCT",
    "makespan_seconds": "makespan",
    "device_hours_per_job": "device-hours",
}
ORDERS: Mapping[tuple[str, str], str] = {
    ("sia", "pollux"): "its paper compares adaptive jobs, and with a Pollux that knows no types and"
    " searches, where ours weighs every type and is exact; the numbers of devices that Sia leaves"
    " out are not the reason: with all of them it is slower still on Philly 2 and 3",
    ("pollux", "gavel"): "",
    ("pollux", "tiresias"): "",
    ("pollux", "optimus"): "",
    ("tiresias", "optimus"): "Pollux's authors have it on their own workloads and devices alike,"
    " where it holds. Here it depends on the file: elastic jobs on 64 T4 end sooner with Tiresias"
    " on the second Philly workload (3.8 against 4.3 h) and with Optimus on the third. Unlike"
    " devices help Optimus more: on the second they make its average 2.7 times shorter, and that of"
    " Tiresias, whose jobs have what they asked for, 1.6 times",
    ("shockwave", "gavel"): "ours takes its paper's market only in part: no forecast of batch"
    " sizes, shares of a window in place of whole rounds",
}
"""Of pairs of policies the first has the shorter average completion time, their papers say; and
what is known of why that does not hold here."""
HOUR = 3600.0


def measure(
    data: Path,
    names: Sequence[str],
    kinds: Sequence[JobKind],
    files_each: Mapping[str, int] | None = None,
    processes: int = 1,
    kept: Path | None = None,
) -> dict[str, Any]:
    """Return for each kind of job how the policies compare, and every run's summary.

    Args:
        data: folder of the public traces.
        names: of the policies; others are divided by the first.
        kinds: of jobs.
        files_each: workloads of a trace at most; all of a trace that is not named.
        processes: side by side.
        kept: where summaries of runs are, one line of JSON each, and come to be.

    Raises:
        StavesError: the data are not there.
    """
    sia = data / "NO-LICENCE-STATED" / "sia"
    profiles = [data / "pollux" / "traces", sia / "traces"]
    experiments: list[Experiment] = []
    at_hand: dict[str, int] = {}
    for trace in TRACES:
        files = sorted((sia / "workloads" / trace).glob("workload-*.csv"))
        if not files:
            raise StavesError(f"no workload of {trace} in {data}", hint="see --data in --help")
        at_hand[trace] = len(files)
        for file in files[: (files_each or {}).get(trace)]:
            made = material("sia-64", str(file), profiles, SETUPS["sia"])
            conditions = Conditions(free_moves=True)
            experiments += [
                Experiment(name, *made, kind, conditions=conditions)
                for kind in kinds
                for name in names
            ]
    runs = _kept(kept)
    left = [one for one in experiments if _key(one) not in runs]
    for _, result in run_all(left, processes):
        run = {key: value for key, value in result.items() if key != "jobs"}
        runs[run["policy"], run["workload"], run["job_kind"]] = run
        if kept is not None:
            with kept.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(run) + "\n")
        done = sum(_key(one) in runs for one in experiments)
        told = f"{done}/{len(experiments)}: {run['policy']}, {run['workload']}"
        seconds = run["summary"]["cpu_seconds"]
        print(f"benchmarks: {told}: {seconds:.1f} s", file=sys.stderr, flush=True)
    ordered = [runs[_key(one)] for one in experiments]
    return {
        "kinds": {
            kind: compared([one for one in ordered if one["job_kind"] == kind], names[0])
            for kind in kinds
        },
        "workloads_at_hand": at_hand,
        "cpu_seconds": sum(one["summary"]["cpu_seconds"] for one in ordered),
        "runs": ordered,
    }


def _key(one: Experiment) -> tuple[str, str, str]:
    return one.policy, one.workload.name, str(one.kind)


def _kept(kept: Path | None) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the runs of former calls by policy, workload and kind of job."""
    if kept is None or not kept.exists():
        return {}
    lines = kept.read_text(encoding="utf-8").splitlines()
    runs: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return {(run["policy"], run["workload"], run["job_kind"]): run for run in runs}


def compared(runs: Sequence[Mapping[str, Any]], baseline: str) -> dict[str, Any]:
    """Return the comparison over all runs, and by trace each policy's average completion times."""
    by_trace: dict[str, dict[str, list[float]]] = {}
    bounds: dict[str, list[float]] = {}
    for one in runs:
        trace, told = str(one["workload"]).split("/")[0], one["summary"]
        if told["finished"] < told["jobs"]:
            raise StavesError(
                f"{one['policy']} left {told['jobs'] - told['finished']} jobs of"
                f" {one['workload']} unfinished",
                hint="an average over the others would flatter it",
            )
        times = by_trace.setdefault(str(one["policy"]), {}).setdefault(trace, [])
        times.append(told["average_jct_seconds"])
        if one["policy"] == baseline:
            bounds.setdefault(trace, []).append(told["contention_free_jct_seconds"])
    return {
        "comparison": compare(runs, baseline),
        "average_jct_seconds": by_trace,
        "contention_free_jct_seconds": bounds,
        "orders": _orders(runs),
    }


def _orders(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each published order on how many workloads it holds, by trace, and the geometric
    mean of the ratio of the two average completion times."""
    average: dict[str, dict[str, float]] = {}
    for one in runs:
        by_workload = average.setdefault(str(one["policy"]), {})
        by_workload[str(one["workload"])] = one["summary"]["average_jct_seconds"]
    return [
        {
            "before": before,
            "after": after,
            "holds": _held(average[before], average[after]),
            "ratio": geometric_mean(
                [time / average[after][name] for name, time in average[before].items()]
            ),
        }
        for before, after in ORDERS
        if before in average and after in average
    ]


def _held(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, list[int]]:
    """Return by trace on how many workloads the first time is the shorter, and of how many."""
    held: dict[str, list[int]] = {}
    for name, time in before.items():
        count = held.setdefault(name.split("/")[0], [0, 0])
        count[0] += time < after[name]
        count[1] += 1
    return held


def _hours(seconds: Sequence[float]) -> str:
    """Return the median of times, and from where to where they go."""
    middle, low, high = (one / HOUR for one in (median(seconds), min(seconds), max(seconds)))
    return f"{middle:.2f} ({low:.2f}-{high:.2f})" if len(seconds) > 1 else f"{middle:.2f}"


def table(told: Mapping[str, Any]) -> str:
    """Return the Markdown table of one kind of job, the shortest mean completion first."""
    comparison = told["comparison"]
    heads = ["policy", *TRACES.values(), *RATIOS.values(), "worst rho", "unfair"]
    bound = told["contention_free_jct_seconds"]
    rows = [heads, ["---"] * len(heads)]
    for one in sorted(
        comparison["policies"], key=lambda one: one["ratio"]["average_jct_seconds"]["value"]
    ):
        times, mean = told["average_jct_seconds"][one["policy"]], one["mean"]
        rows.append(
            [
                f"`{one['policy']}`",
                *(_hours(times[trace]) for trace in TRACES),
                *(cell(one["ratio"][figure]) for figure in RATIOS),
                f"{mean['worst_finish_time_fairness']:.1f}",
                f"{mean['unfair_share']:.0%}",
            ]
        )
    rows.append(["*every job alone*", *(_hours(bound[trace]) for trace in TRACES), *["-"] * 6])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def page(document: Mapping[str, Any], names: Sequence[str], command: str) -> str:
    """Return the page with the tables of all kinds.

    Args:
        document: as `measure` returned it.
        names: of the policies.
        command: that wrote it.
    """
    workloads = next(iter(document["kinds"].values()))["comparison"]["workloads"]
    numbers = ", ".join(
        f"{sum(one.startswith(f'{trace}/') for one in workloads)} of {label}"
        for trace, label in TRACES.items()
    )
    at_hand = sum(document["workloads_at_hand"].values())
    share, took = f"all {at_hand} workloads at hand", _minutes(document["cpu_seconds"])
    if len(workloads) < at_hand:
        share = f"{len(workloads)} of the {at_hand} workloads at hand, the first of each trace"
        took += f"; all {at_hand} would take about {_minutes(_whole(document))}"
    lines = [
        "# The field on the public workloads",
        "",
        f"Written by `{command}`, where DIR holds the traces of Sia and Pollux. Minutes of CPU:"
        f" {took}.",
        "",
        f"{len(names)} policies on {share} ({numbers}), on 64 devices: 24 T4,"
        " 24 RTX 2080 Ti and 16 A100. Every start and every change of devices costs the pauses of"
        " the published set-up, for `heet` too, though its own system changes jobs in place. All"
        " policies are told true speeds; [how near](simulation-fidelity.md) ours come to the"
        " published systems, learned beliefs included, is another page.",
        "",
        "How to read the tables:",
        "",
        "* Under the traces: average completion time in hours, the median over the workloads, and"
        " in brackets the least and the largest.",
        f"* Then ratios to `{names[0]}`, above 1 is worse: geometric means over the workloads,"
        " paired, with bootstrap 95 % intervals.",
        "* *worst rho*: how much later the worst-off job ends than with a fair share (Themis's"
        " finish-time fairness). *unfair*: the share of jobs whose rho is above 1. Both are means.",
        "* *every job alone* is a bound: each on its best devices of one type.",
        "",
        "All jobs of these workloads ended under all policies."
        + (f" Left out: {LEFT_OUT}." if GENETIC not in names else ""),
    ]
    for kind, told in document["kinds"].items():
        lines += ["", f"## {KINDS[kind]}", "", table(told)]
        if told["orders"]:
            lines += ["", *_reading(told["orders"])]
    return "\n".join(lines) + "\n"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}"


def _whole(document: Mapping[str, Any]) -> float:
    """Return the CPU seconds of all workloads at hand, if others take as long as those that ran."""
    runs: list[Mapping[str, Any]] = document["runs"]
    seconds = 0.0
    for trace, count in document["workloads_at_hand"].items():
        of_trace = [one for one in runs if one["workload"].startswith(f"{trace}/")]
        files = len({one["workload"] for one in of_trace})
        seconds += sum(one["summary"]["cpu_seconds"] for one in of_trace) / files * count
    return seconds


def _reading(orders: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in words where each published order holds, and why not where it does not."""
    lines = ["Orders that papers state, by average completion time:", ""]
    for one in orders:
        before, after, held = one["before"], one["after"], one["holds"]
        ratio = f"{one['ratio']:.2f} times its average completion time"
        holds, of = (sum(column) for column in zip(*held.values(), strict=True))
        line = f"* `{before}` before `{after}`: on {holds} of {of}; {ratio}."
        if holds < of:
            parts = ", ".join(f"{n} of {m} {TRACES[trace]}" for trace, (n, m) in held.items())
            line = f"* `{before}` before `{after}`: **not on all**, {parts}; {ratio}."
            why = ORDERS[before, after]
            line += f" Why: {why}." if why else " Why is not known."
        lines.append(line)
    return lines


def _command(given: argparse.Namespace) -> str:
    """Return the command with all flags that were given; folders are the reader's own."""
    flags = [f" --policy {name}" for name in given.policy or ()]
    flags += [f" --job-kind {kind}" for kind in given.job_kind or ()]
    flags += [f" --files {trace}={count}" for trace, count in given.files or ()]
    flags += [f" --processes {given.processes}"] if given.processes > 1 else []
    flags += [" --kept RUNS"] if given.kept is not None else []
    return f"python -m benchmarks.field --data DIR{''.join(flags)} --page PAGE"


def _count(text: str) -> tuple[str, int]:
    trace, _, count = text.partition("=")
    if trace not in TRACES or not count.isdecimal() or int(count) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: wanted TRACE=N, TRACE of {', '.join(TRACES)}")
    return trace, int(count)


def main() -> None:
    """Print the comparison, and write the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("--policy", action="append", help="others are divided by the first")
    parser.add_argument("--job-kind", action="append", choices=tuple(KINDS))
    parser.add_argument(
        "--files", type=_count, action="append", metavar="TRACE=N", help="its first N workloads"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kept", type=Path, help="keep the runs there, and go on from them")
    parser.add_argument("--page", type=Path, help="write the tables there")
    given = parser.parse_args()
    others = sorted(name for name in policies() if name not in ("heet", GENETIC))
    names = given.policy or ["heet", *others]
    kinds = given.job_kind or ["adaptive", "elastic"]
    document = measure(
        given.data, names, kinds, dict(given.files or ()), given.processes, given.kept
    )
    for kind, told in document["kinds"].items():
        print(f"{KINDS[kind]}\n{table(told)}\n", file=sys.stderr)
    print(f"{document['cpu_seconds'] / 60:.1f} CPU minutes", file=sys.stderr)
    if given.page is not None:
        given.page.write_text(page(document, names, _command(given)), encoding="utf-8")
    print(json.dumps(document))


if __name__ == "__main__":
    main()
