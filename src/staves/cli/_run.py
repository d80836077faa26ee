"""`staves run`: one job over unlike devices, here and now."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from staves.cli._destination import check_folder
from staves.cli._knowledge import Learned, earlier_run
from staves.cli._launching import (
    choose_devices,
    chosen_cluster,
    overrides,
    raise_failure,
    script_path,
    warn_of_near_options,
)
from staves.cli._output import print_json, warn
from staves.cli._run_report import write_run_report
from staves.cli._run_view import RunView
from staves.documents import duration
from staves.engines.local import (
    RunFolder,
    Supervisor,
    local_ranks,
    staves_home,
    summarise,
)
from staves.errors import InputError
from staves.reports import drawing

_OPTIONS = (
    "--devices", "--min", "--max", "--batch", "--split", "--grace", "--checkpoint", "--every",
    "--report", "--json",
)  # fmt: skip
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
    cluster = chosen_cluster(devices)
    chosen = choose_devices(cluster.devices(), minimum, maximum)
    path = script_path(script)
    warn_of_near_options(context.args, _OPTIONS)
    environ = overrides(batch, split, chosen) | _checkpoint_options(checkpoint, every)
    if not (math.isfinite(grace) and grace >= 0):
        raise InputError(f"--grace: {grace} is not a number of seconds")
    for warning in cluster.warnings:
        warn(warning)
    if report is not None:
        _check_report(report)
    local_ranks(chosen)  # refuses devices that this machine does not have
    folder = RunFolder.create(staves_home(), path.stem)
    view = RunView(chosen, json_wanted=as_json)
    if split is None:
        view.earlier = lambda batch: earlier_run(staves_home(), path, batch)
    learned = Learned(folder, path, emulated=any(device.type.emulated for device in chosen))
    with view:
        view.say(f"run {folder.name}")
        supervisor = Supervisor(
            [sys.executable, str(path), *context.args],
            chosen,
            folder=folder,
            minimum=minimum,
            grace=grace,
            environ={**os.environ, **environ},
            on_message=learned.and_then(view.message),
            on_output=view.output,
            on_warning=view.warn,
        )
        view.epochs.losses = supervisor.losses
        outcome = supervisor.run()
    learned.ended(void=supervisor.deadlines.void)
    raise_failure(outcome)
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
    check_folder("--report", folder)
    with drawing():
        pass


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
