"""`staves run`: one job over unlike devices, here and now."""

from __future__ import annotations

import difflib
import math
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from staves.cli._output import messages, print_json
from staves.cli._run_view import RunView
from staves.documents import duration
from staves.engines.local import (
    EpochLosses,
    Outcome,
    RunFolder,
    Supervisor,
    local_ranks,
    staves_home,
)
from staves.errors import InputError, StavesError
from staves.hardware import MISSES_ALLOWED, Cluster, Device, read_cluster, this_machine

_OPTIONS = (
    "--devices", "--min", "--max", "--batch", "--split", "--grace", "--checkpoint", "--every",
    "--json",
)  # fmt: skip
MOST_WORKERS = 512
"""More processes than this on one machine are a mistake in the file."""

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Options that staves does not know go to the script."""


def run(
    context: typer.Context,
    script: Annotated[str, typer.Argument(help="The training script.", show_default=False)],
    devices: Annotated[
        Path | None,
        typer.Option(help="Cluster file; without it, this machine's own devices.", metavar="FILE"),
    ] = None,
    minimum: Annotated[
        int, typer.Option("--min", help="Fewest devices to start with.", metavar="N")
    ] = 1,
    maximum: Annotated[
        int | None, typer.Option("--max", help="Most devices to use.", metavar="M")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Total batch in samples, instead of the script's.", metavar="B"),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="auto, even, or samples for each device like 24,8.", metavar="SPLIT"),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(help="Seconds that a rank may take to come to a step boundary."),
    ] = 30.0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder of checkpoints; training resumes from it.", metavar="DIR"),
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Time between two checkpoints, like 5m.", metavar="TIME")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON at the end.")
    ] = False,
) -> None:
    """Train SCRIPT over unlike devices, each batch split so that all of them finish together.

    Options that staves does not know, and all after `--`, go to the script.
    """
    cluster = _cluster(devices)
    chosen = _choose(cluster.devices(), minimum, maximum)
    path = _script(script)
    for argument in context.args:
        near = difflib.get_close_matches(argument.partition("=")[0], _OPTIONS, n=1, cutoff=0.8)
        if argument.startswith("--") and near:
            line = f"staves: warning: {argument} goes to the script; did you mean {near[0]}?"
            messages.print(line, markup=False)
    environ = _overrides(batch, split, chosen) | _checkpoint_options(checkpoint, every)
    if not (math.isfinite(grace) and grace >= 0):
        raise InputError(f"--grace: {grace} is not a number of seconds")
    for warning in cluster.warnings:
        messages.print(f"staves: warning: {warning}", markup=False)
    local_ranks(chosen)  # refuses devices that this machine does not have
    folder = RunFolder.create(staves_home(), path.stem)
    view = RunView(chosen, json_wanted=as_json)
    with view:
        view.say(f"run {folder.name}")
        supervisor = Supervisor(
            [str(path), *context.args],
            chosen,
            folder=folder,
            minimum=minimum,
            grace=grace,
            environ=environ,
            on_message=view.message,
            on_output=view.output,
            on_warning=view.warn,
        )
        view.losses = supervisor.losses
        outcome = supervisor.run()
    _raise_failure(outcome)
    figures = summarise(outcome, supervisor.losses, supervisor.deadlines)
    figures["run"] = folder.name
    if as_json:
        print_json(figures)
    else:
        view.summary(figures)


def summarise(
    outcome: Outcome, losses: EpochLosses, of_leavers: list[dict[str, int]]
) -> dict[str, Any]:
    """Return the run's figures: those of its last rank 0, with all ranks' losses and deadlines."""
    if not outcome.reports:
        # A script that never made a run, or never trained, has nothing to report.
        return {
            "steps": 0, "samples": 0, "epochs": 0, "step_seconds": None,
            "predicted_step_seconds": None, "even_step_seconds": None, "local_batches": [],
            "rescales": 0, "emulated": False,
        }  # fmt: skip
    figures = dict(next(iter(sorted(outcome.reports.items())))[1])
    first, last = losses.first, losses.last
    figures["loss"] = {
        "first": losses.mean(first),
        "last": losses.mean(last),
        "covered": {"first": losses.covered(first), "last": losses.covered(last)},
    }
    deadlines = [r["deadlines"] for r in outcome.reports.values() if r["deadlines"] is not None]
    deadlines += of_leavers
    del figures["deadlines"]
    if deadlines:
        steps = sum(d["steps"] for d in deadlines)
        missed = sum(d["missed"] for d in deadlines)
        figures["emulated"] = True
        figures["deadlines"] = {"device_steps": steps, "missed": missed}
        figures["void"] = missed > MISSES_ALLOWED * steps
    return figures


def _cluster(devices: Path | None) -> Cluster:
    return this_machine() if devices is None else read_cluster(devices)


def _choose(devices: tuple[Device, ...], minimum: int, maximum: int | None) -> list[Device]:
    if minimum < 1:
        raise InputError(f"--min: {minimum} is not a positive number of devices")
    if maximum is not None and maximum < 1:
        raise InputError(f"--max: {maximum} is not a positive number of devices")
    if maximum is not None and maximum < minimum:
        raise InputError(f"--min: {minimum} is above --max {maximum}", hint="swap them, perhaps")
    if len(devices) < minimum:
        raise InputError(
            f"--min: {minimum} devices are wanted, there are {len(devices)}",
            hint="name more in --devices, or lower --min",
        )
    chosen = list(devices[:maximum])
    if len(chosen) > MOST_WORKERS:
        raise InputError(
            f"{len(chosen)} devices are too many workers for one machine",
            hint=f"use at most {MOST_WORKERS}: --max {MOST_WORKERS}",
        )
    return chosen


def _script(script: str) -> Path:
    path = Path(script)
    if script.startswith("-"):
        raise InputError(
            f"unknown option {script} before the script",
            hint="options of the script go behind it: staves run SCRIPT [ARGS]",
        )
    if not path.exists():
        raise InputError(f"{script}: no such script", hint="check the path")
    if not path.is_file():
        raise InputError(f"{script}: is not a file", hint="name a Python script")
    return path


def _overrides(batch: int | None, split: str | None, devices: list[Device]) -> dict[str, str]:
    environ = {}
    if batch is not None:
        if batch < 1:
            raise InputError(f"--batch: {batch} is not a positive number of samples")
        least = sum(d.type.profile.min_batch for d in devices if d.type.profile)
        if batch < least:
            raise InputError(f"--batch: {batch} is below the devices' min_batch, {least} in all")
        environ["STAVES_BATCH"] = str(batch)
    if split is not None:
        if split not in ("auto", "even"):
            _check_split(split, batch, len(devices))
        environ["STAVES_SPLIT"] = split
    return environ


def _check_split(split: str, batch: int | None, devices: int) -> None:
    try:
        parts = [int(part) for part in split.split(",")]
    except ValueError:
        raise InputError(
            f"--split: {split!r} is no split", hint="auto, even, or samples like 24,8"
        ) from None
    if len(parts) != devices or min(parts) < 0:
        raise InputError(
            f"--split: {split!r} does not give {devices} devices their samples",
            hint="one number, 0 or more, for each device",
        )
    if batch is not None and sum(parts) != batch:
        raise InputError(f"--split: {split!r} sums to {sum(parts)}, --batch is {batch}")


def _checkpoint_options(checkpoint: Path | None, every: str | None) -> dict[str, str]:
    if checkpoint is None:
        if every is not None:
            raise InputError("--every: there is no --checkpoint", hint="name its folder too")
        return {}
    environ = {"STAVES_CHECKPOINT": str(checkpoint.absolute())}
    if every is not None:
        duration(every)  # refuses what is none
        environ["STAVES_CHECKPOINT_EVERY"] = every
    return environ


def _raise_failure(outcome: Outcome) -> None:
    if outcome.stopped_by is not None:
        if outcome.stopped_by == signal.SIGINT:
            raise KeyboardInterrupt
        messages.print("staves: ended by SIGTERM", markup=False)
        raise SystemExit(128 + outcome.stopped_by)
    if outcome.refusal is not None:
        raise InputError(outcome.refusal["message"], hint=outcome.refusal["hint"])
    if outcome.failed is not None:
        rank, name = outcome.failed
        if outcome.traceback:
            print(
                f"--- what the script printed last on rank {rank} ({name}) ---\n"
                f"{outcome.traceback}\n--- end of the script's output ---",
                file=sys.stderr,
            )
        status = outcome.status
        what = f"failed on rank {rank} ({name}) with {_how(status)}"
        if status == 0:
            what = f"ended on rank {rank} ({name}) before its training was finished"
        raise StavesError(
            f"the script {what}",
            hint=f"its whole output: {outcome.log}",
        )
    if outcome.reason is not None:
        raise StavesError(outcome.reason)


def _how(status: int) -> str:
    """Say how a process ended."""
    if status > 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:  # real-time signals have no name
        return f"signal {-status}"
