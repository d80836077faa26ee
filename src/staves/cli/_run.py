"""`staves run`: one job over unlike devices, here and now."""

from __future__ import annotations

import difflib
import math
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from staves.cli._output import messages, print_json
from staves.cli._run_report import write_run_report
from staves.cli._run_view import RunView
from staves.documents import duration
from staves.engines.local import (
    Outcome,
    RunFolder,
    Supervisor,
    local_ranks,
    staves_home,
    summarise,
)
from staves.errors import InputError, StavesError
from staves.hardware import Cluster, Device, read_cluster, this_machine
from staves.reports import drawing

_OPTIONS = (
    "--devices", "--min", "--max", "--batch", "--split", "--grace", "--checkpoint", "--every",
    "--report", "--json",
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
    report: Annotated[
        Path | None,
        typer.Option(help="Folder for a page with plots of the run.", metavar="FOLDER"),
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
    if report is not None:
        _check_report(report)
    local_ranks(chosen)  # refuses devices that this machine does not have
    folder = RunFolder.create(staves_home(), path.stem)
    view = RunView(chosen, json_wanted=as_json)
    with view:
        view.say(f"run {folder.name}")
        supervisor = Supervisor(
            [sys.executable, str(path), *context.args],
            chosen,
            folder=folder,
            minimum=minimum,
            grace=grace,
            environ={**os.environ, **environ},
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
    if report is not None and outcome.history is not None:
        page = write_run_report(outcome.history, figures, report, name=folder.name)
        view.say(f"report: {page}")


def _check_report(folder: Path) -> None:
    """Refuse before training what would fail after it."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--report: {folder} is not a folder", hint="name another")
    with drawing():
        pass


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
        if outcome.told == "saved":
            line = "saved; the same command goes on from there"
            messages.print(f"staves: {line}", markup=False)
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
        raise StavesError(
            f"the script {outcome.failure()}", hint=f"its whole output: {outcome.log}"
        )
    if outcome.reason is not None:
        raise StavesError(outcome.reason)
