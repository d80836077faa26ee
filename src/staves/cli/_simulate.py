"""`staves simulate` and `staves policies`: workloads under policies, on simulated time."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from staves.cli._bounds import check_within
from staves.cli._destination import check_file, check_folder
from staves.cli._output import finite, messages, output, print_json
from staves.cli._quotas import Quotas, parse_quotas
from staves.cli._service import print_table
from staves.errors import InputError, quoted
from staves.reports import drawing

if TYPE_CHECKING:
    from staves.hardware import Cluster
    from staves.simulation import AnyApplication, Availability, Experiment, Workload

_QUIET_SECONDS = 2.0
"""What takes no longer needs no sign of life."""


class Kind(StrEnum):
    """What jobs can do."""

    ADAPTIVE = "adaptive"
    ELASTIC = "elastic"
    RIGID = "rigid"


class Beliefs(StrEnum):
    """What policies are told of speeds."""

    ORACLE = "oracle"
    LEARNED = "learned"


class Pauses(StrEnum):
    """What a change costs."""

    PUBLISHED = "published"
    OWN = "own"


class SetupName(StrEnum):
    """Whose constants count."""

    SIA = "sia"
    POLLUX = "pollux"


def simulate(
    policies: Annotated[
        list[str] | None, typer.Option("--policy", metavar="NAME", help="May be given repeatedly.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="FILE", help="A cluster file, or sia-64, sia-128, ..."),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="FILE", help="Jobs: see docs/simulation.md.")
    ] = None,
    profiles: Annotated[
        list[Path] | None,
        typer.Option(
            "--profiles", metavar="PATH", help="Application profiles; the product's own if absent."
        ),
    ] = None,
    type_names: Annotated[
        str | None,
        typer.Option(
            "--type-names", metavar="SUFFIX=TYPE,...", help="What suffixes of files mean."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            metavar="N",
            min=1,
            max=10_000,
            help="Seeds 0 to N - 1: of synthetic jobs, failures, stragglers and errors.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="S", min=0, help="Run this seed only.")
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option("--job-kind", help="What all jobs can do; default: by policy.")
    ] = None,
    beliefs: Annotated[
        Beliefs, typer.Option("--beliefs", help="What policies are told of speeds.")
    ] = Beliefs.ORACLE,
    belief_error: Annotated[
        float,
        typer.Option(
            "--belief-error", metavar="E", help="What they are told is off; 0.1: by 10 %."
        ),
    ] = 0.0,
    pauses: Annotated[
        Pauses, typer.Option("--pauses", help="What a change costs.")
    ] = Pauses.PUBLISHED,
    in_place_seconds: Annotated[
        float | None,
        typer.Option("--in-place-seconds", metavar="S", help="With --pauses own: 5 by default."),
    ] = None,
    setup: Annotated[SetupName, typer.Option("--setup", help="Whose constants.")] = SetupName.SIA,
    failures: Annotated[
        float, typer.Option("--failure-hours", metavar="H", help="A node's mean time to failure.")
    ] = math.inf,
    repairs: Annotated[
        float, typer.Option("--repair-hours", metavar="H", help="Its mean time to repair.")
    ] = 1.0,
    availability: Annotated[
        Path | None,
        typer.Option(
            "--availability", metavar="FILE", help="Which devices are there when: docs/traces.md."
        ),
    ] = None,
    stragglers: Annotated[
        float, typer.Option("--stragglers", metavar="SHARE", help="Share of nodes at half speed.")
    ] = 0.0,
    quota: Quotas = None,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=1, max=1024, help="Runs side by side.")
    ] = 1,
    decide_only: Annotated[
        bool, typer.Option("--decide-only", help="Time one decision on a synthetic cluster.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", min=1, max=1_000_000, help="With --decide-only."),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices", metavar="M", min=1, max=1_000_000, help="With --decide-only."),
    ] = None,
    dump: Annotated[
        Path | None,
        typer.Option("--dump", metavar="FILE", help="With --decide-only: write the instance."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FOLDER", help="Draw PNGs and one HTML page there."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the JSON there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run workloads under policies on simulated time, and compare."""
    # Before numpy loads: threads gain nothing on matrices this small, and spin in between.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not policies:
        raise InputError("--policy is missing", hint="see: staves policies")
    quotas = parse_quotas(quota)
    if decide_only:
        if quotas:
            raise InputError("--quota goes with a workload, not --decide-only", hint="leave it out")
        _decide_only(policies, jobs, devices, seed or 0, dump, as_json)
        return
    for name, value in (("--jobs", jobs), ("--devices", devices), ("--dump", dump)):
        if value is not None:
            raise InputError(f"{name} goes with --decide-only", hint="leave it out, or add that")
    if seeds is not None and seed is not None:
        raise InputError("give either --seeds or --seed, not both", hint="leave one out")
    if in_place_seconds is not None and pauses is not Pauses.OWN:
        raise InputError("--in-place-seconds goes with --pauses own", hint="add --pauses own")
    _check_conditions(failures, repairs, availability, stragglers, in_place_seconds)
    _check_beliefs(belief_error, beliefs)
    _check_destinations(file, report, cluster, workload, availability)
    from staves.scheduling import check_quotas, policy
    from staves.simulation import IN_PLACE_SECONDS, Conditions, Experiment, over_seeds

    for name in policies:  # what cannot be run is told before anything is read
        check_quotas(policy(name), quotas)
    numbers = [seed or 0] if seeds is None else list(range(seeds))
    made = _material(cluster, workload, profiles or [], type_names, setup, numbers)
    there = made[0][0]
    trace = None if availability is None else _availability(availability, there)
    in_place = None
    if pauses is Pauses.OWN:
        in_place = IN_PLACE_SECONDS if in_place_seconds is None else in_place_seconds
    experiments = [
        Experiment(
            name,
            *made[index],
            None if kind is None else kind.value,
            beliefs.value,
            in_place,
            Conditions(
                number,
                failure_seconds=failures * 3600,
                repair_seconds=repairs * 3600,
                in_place=in_place is not None,
                straggler_share=stragglers,
                free_moves=True,  # as in both set-ups
                availability=trace,
            ),
            belief_error=belief_error,
            quotas=quotas,
        )
        for name in policies
        for index, number in enumerate(numbers)
    ]
    runs = _run(experiments, processes)
    document = {"runs": runs, "over_seeds": over_seeds(runs)}
    if file is not None:
        file.write_text(json.dumps(finite(document)) + "\n")
    if report is not None:
        from staves.simulation import write_report

        page = write_report(runs, there, report)
        messages.print(f"staves: the report is {page}")
    if as_json:
        print_json(document)
    else:
        _print(runs)
        _print_over_seeds(document["over_seeds"])


def _check_conditions(
    failures: float,
    repairs: float,
    availability: Path | None,
    stragglers: float,
    in_place_seconds: float | None,
) -> None:
    """Refuse, by option, what could not be simulated, before anything is read."""
    check_within("--failure-hours", failures, 1 / 60, hint="a minute is the least: 0.0167")
    check_within("--repair-hours", repairs, 1e-3, 1e4, hint="1 by default")
    check_within("--stragglers", stragglers, 0, 1, hint="0.1: one node in ten is slow")
    if in_place_seconds is not None:
        check_within("--in-place-seconds", in_place_seconds, 0, 86_400, hint="like 5")
    if availability is not None and failures != math.inf:
        raise InputError(
            "--failure-hours draws failures, --availability says them: give one of the two",
            hint="leave one out",
        )


def _check_beliefs(error: float, beliefs: Beliefs) -> None:
    check_within("--belief-error", error, 0, 2, hint="0.1: by 10 %")
    if error and beliefs is not Beliefs.ORACLE:
        raise InputError(
            "--belief-error goes with --beliefs oracle: learned ones err by themselves",
            hint="leave one of the two out",
        )


def _check_destinations(
    file: Path | None,
    report: Path | None,
    cluster: str | None,
    workload: str | None,
    availability: Path | None,
) -> None:
    """Refuse before the simulations what would fail after them."""
    if file is not None:
        named = (cluster, workload, availability)
        check_file("--output", file, sources=[Path(one) for one in named if one is not None])
    if report is not None:
        check_folder("--report", report)
        with drawing():
            pass


def policies(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the policies, and what they take jobs for."""
    from staves.scheduling import policies as known
    from staves.scheduling import unusable

    for problem in unusable().values():
        messages.print(f"staves: {problem}")
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "job_kind": one.job_kind,
            "round_seconds": one.round_seconds,
            "about": (one.__doc__ or "").strip().split("\n")[0],
        }
        for name, one in sorted(known().items())
    ]
    if as_json:
        print_json({"policies": found})
        return
    print_table(
        ("name", "jobs", "rounds", "about"),
        (
            (one["name"], one["job_kind"], _lasting(one["round_seconds"]), one["about"])
            for one in found
        ),
    )


def _lasting(seconds: float | None) -> str:
    return "at events" if seconds is None else f"{seconds:g} s"


def _material(
    cluster: str | None,
    workload: str | None,
    profiles: Sequence[Path],
    type_names: str | None,
    setup: SetupName,
    seeds: Sequence[int],
) -> list[tuple[Cluster, Workload, Mapping[str, AnyApplication]]]:
    """Return the cluster, the workload and the profiles for each seed."""
    from staves.simulation import SETUPS, material, synthetic_jobs

    if cluster is None:
        raise InputError("--cluster is missing", hint="name a cluster file, or sia-64")
    if workload is None:
        raise InputError("--workload is missing", hint="name a file, or synthetic-160")
    names = _type_names(type_names)
    drawn = synthetic_jobs(workload) is not None  # else all seeds have the same file
    made = [
        material(cluster, workload, profiles, SETUPS[setup.value], names, seed)
        for seed in (seeds if drawn else seeds[:1])
    ]
    for note in (*made[0][0].warnings, *made[0][1].notes):
        messages.print(f"staves: {note}")
    return made if drawn else made * len(seeds)


def _availability(path: Path, cluster: Cluster) -> Availability:
    """Read an availability trace, and say what goes how often on this cluster."""
    from staves.simulation import read_availability

    trace = read_availability(path)
    for note in (*trace.counted, *trace.assumed):
        messages.print(f"staves: {trace.name}: {note}")
    gone = sum(not outage.up for outage in trace.outages(cluster))
    messages.print(f"staves: {trace.name}: nodes go away {gone} times")
    return trace


def _type_names(text: str | None) -> dict[str, str] | None:
    """Return `aws=t4,=t4` as a mapping, beside the known ones."""
    if text is None:
        return None
    from staves.simulation import TYPE_NAMES

    names = dict(TYPE_NAMES)
    for part in text.split(","):
        suffix, equals, name = part.partition("=")
        if not equals or not name.strip():
            raise InputError(
                f"--type-names: {quoted(part)} is not SUFFIX=TYPE", hint="like rtx=rtx2080ti"
            )
        names[suffix.strip()] = name.strip()
    return names


def _run(experiments: Sequence[Experiment], processes: int) -> list[dict[str, Any]]:
    from staves.simulation import run_all

    results: dict[int, dict[str, Any]] = {}
    began = time.monotonic()
    with _bar() as advance:
        for number, result in run_all(experiments, processes, advance):
            results[number] = result
            if not messages.is_terminal and time.monotonic() - began >= _QUIET_SECONDS:
                messages.print(
                    f"staves: {result['policy']}, seed {result['seed']}: done,"
                    f" {len(results)} of {len(experiments)} runs"
                )
    return [results[number] for number in range(len(experiments))]


@contextmanager
def _bar() -> Iterator[Any]:
    """Show how many jobs of all runs have ended, on standard error where that is a terminal."""
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=messages, transient=True, disable=not messages.is_terminal
    ) as progress:
        task = progress.add_task("runs", total=None)

        def advance(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield advance


def _decide_only(
    names: Sequence[str],
    jobs: int | None,
    devices: int | None,
    seed: int,
    dump: Path | None,
    as_json: bool,
) -> None:
    """Time one decision of one policy."""
    if jobs is None or devices is None:
        raise InputError("--decide-only needs --jobs N and --devices M", hint="add both")
    if len(names) > 1:
        raise InputError("--decide-only times one policy", hint="give one --policy")
    if dump is not None:
        check_file("--dump", dump)
    from staves.simulation import decide_only

    timed = decide_only(names[0], jobs, devices, seed)
    if dump is not None:
        dump.write_text(json.dumps(timed.instance) + "\n")
    document = timed.to_document()
    if as_json:
        print_json(document)
    else:
        for key, value in document.items():
            output().print(f"{key}: {'-' if value is None else f'{value:.6g}'}")


def _print(runs: Sequence[dict[str, Any]]) -> None:
    hours = ("average_jct_seconds", "p50_jct_seconds", "p99_jct_seconds", "makespan_seconds")
    heads = ("policy", "seed", "finished", "JCT h", "p50 h", "p99 h", "makespan h")
    rows = []
    for run in runs:
        s = run["summary"]
        rows.append(
            (
                run["policy"],
                run["seed"],
                f"{s['finished']}/{s['jobs']}",
                *(_scaled(s[key], 3600) for key in hours),
                _scaled(s["device_seconds"], 3600),
                s["restarts"],
                _scaled(s["decision_seconds"]["p50"], 1e-3),
                _scaled(s["cpu_seconds"], 1),
            )
        )
    print_table((*heads, "device-h", "restarts", "decision ms", "CPU s"), rows)
    bounds = {run["summary"]["contention_free_jct_seconds"] for run in runs} - {None}
    if bounds:
        alone = min(bounds) / 3600
        output().print(f"alone, each on devices of one type, jobs would take {alone:.3f} h")


def _print_over_seeds(figures: Sequence[dict[str, Any]]) -> None:
    for one in figures:
        jct = one["average_jct_seconds"]
        if jct is not None:
            low, high = jct["interval"]
            output().print(
                f"{one['policy']}: mean JCT over {len(one['seeds'])} seeds"
                f" {_scaled(jct['mean'], 3600)} h, 95 % {low / 3600:.3f} to {high / 3600:.3f}"
            )


def _scaled(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:.3f}"
