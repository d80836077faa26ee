"""`staves profile`: a few short probes, and what they tell of the devices."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from staves.cli._destination import check_file
from staves.cli._expectation import known_model
from staves.cli._knowledge import Learned
from staves.cli._launching import (
    choose_devices,
    chosen_cluster,
    overrides,
    raise_failure,
    script_path,
    warn_of_near_options,
)
from staves.cli._output import output, print_json, warn
from staves.cli._run_view import RunView, void_note
from staves.engines.local import RunFolder, Supervisor, local_ranks, staves_home
from staves.errors import InputError, StavesError, printable
from staves.hardware import Device

if TYPE_CHECKING:
    from staves.steptime import Line, StepTimeModel

_OPTIONS = ("--devices", "--max", "--batch", "--output", "--json")
_ALONE = 20
"""Steps that one device takes alone: it has no second split to be measured."""
_GRACE = 5.0  # seconds that workers may take to end
_OF_A_FILE = ("devices", "communication", "void")
"""What `--output` writes; `void` only of emulated devices."""
_FACTORS = (0.25, 0.5, 1, 2, 4)
"""Batches that are predicted, beside the script's own."""


def profile(
    context: typer.Context,
    script: Annotated[str, typer.Argument(help="The training script.", show_default=False)],
    devices: Annotated[
        Path | None,
        typer.Option(help="Cluster file; without it, this machine's own devices.", metavar="FILE"),
    ] = None,
    maximum: Annotated[
        int | None, typer.Option("--max", help="Most devices to use.", metavar="M")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Total batch in samples, instead of the script's.", metavar="B"),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", help="Write a step-time file, for `staves plan`.", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train SCRIPT for the few steps of the two probes, and show what they tell of the devices.

    That is what the scheduler will believe. No checkpoint is read or written. Options that staves
    does not know, and all after `--`, go to the script.
    """
    cluster = chosen_cluster(devices)
    chosen = choose_devices(cluster.devices(), 1, maximum)
    path = script_path(script)
    warn_of_near_options(context.args, _OPTIONS)
    if output_file is not None:
        check_file("--output", output_file, sources=[path])
    environ = {**os.environ, **overrides(batch, None, chosen), "STAVES_PROBING": "1"}
    environ.pop("STAVES_CHECKPOINT", None)
    for warning in cluster.warnings:
        warn(warning)
    local_ranks(chosen)  # refuses devices that this machine does not have
    learned, late = _probe([sys.executable, str(path), *context.args], chosen, path, environ)
    model = _capped(_model(learned, chosen), learned.caps)
    document = _document(model, learned, chosen) | late
    if output_file is not None:
        steptime = {key: document[key] for key in _OF_A_FILE if key in document}
        output_file.write_text(json.dumps(steptime, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(document)
    else:
        _print(model, document)
    if document.get("void") and output_file is not None:
        warn(f"{output_file} is void, and says so: profile again on an idle machine")


def _probe(
    command: Sequence[str], devices: Sequence[Device], script: Path, environ: dict[str, str]
) -> tuple[Learned, dict[str, Any]]:
    """Run the script until it has told what there is to learn; then end it.

    Returns also how many steps of emulated devices were late, as `Deadlines.figures`.
    """
    folder = RunFolder.create(staves_home(), f"profile-{script.stem}")
    learned = Learned(folder, script, emulated=any(device.type.emulated for device in devices))
    view = RunView(devices, json_wanted=True)

    def listen(rank: int, message: dict[str, Any]) -> None:
        view.message(rank, message)
        if _enough(learned, len(devices)):
            supervisor.stop(save=False, grace=_GRACE)

    supervisor = Supervisor(
        command,
        devices,
        folder=folder,
        environ=environ,
        on_message=learned.and_then(listen),
        on_output=view.output,
        on_warning=view.warn,
    )
    with view:
        view.say(f"profile {folder.name}")
        view.epochs.losses = supervisor.losses
        outcome = supervisor.run()
    learned.ended(void=supervisor.deadlines.void)
    if not _enough(learned, len(devices)):
        raise_failure(outcome)
        raise StavesError(
            f"the script ended after {learned.step} steps, before all was measured",
            hint="let it train for some 30 full batches: more epochs, or a smaller --batch",
        )
    if outcome.stopped_by is not None:
        raise_failure(outcome)
    return learned, supervisor.deadlines.figures()


def _enough(learned: Learned, devices: int) -> bool:
    """Say whether the probes are over."""
    if learned.knowledge is not None:
        return True
    return devices == 1 and learned.step >= _ALONE and learned.step_seconds is not None


def _model(learned: Learned, devices: Sequence[Device]) -> StepTimeModel:
    """Return what the scheduler would take for the devices' model."""
    from staves.estimation import JobProfile
    from staves.steptime import Communication, StepTimeModel
    from staves.steptime import Device as TimedDevice

    if learned.knowledge is not None:
        model = known_model(learned.knowledge, devices)
        if model is not None:
            return model
    if len(devices) > 1 or learned.step_seconds is None or learned.batch is None:
        raise StavesError("the probes did not tell the devices apart", hint="run it again")
    (device,) = devices
    kind, bounds = device.type.name, device.type.profile
    alone = JobProfile.from_step(kind, learned.step_seconds, learned.batch)
    least, most = (0, None) if bounds is None else (bounds.min_batch, bounds.max_batch)
    timed = TimedDevice(device.name, kind, *alone.lines[kind], least, most)
    return StepTimeModel((timed,), Communication((1.0,), (0.0,)))


def _capped(model: StepTimeModel, caps: Mapping[int, int]) -> StepTimeModel:
    """Return the model with what ranks were found to hold at once."""
    devices = list(model.devices)
    for rank, cap in caps.items():
        devices[rank] = replace(devices[rank], max_batch=max(cap, devices[rank].min_batch))
    return replace(model, devices=tuple(devices))


def _document(model: StepTimeModel, learned: Learned, devices: Sequence[Device]) -> dict[str, Any]:
    from staves.steptime import even_split, integer_split, to_document

    batch = learned.batch or 1
    predictions = []
    for samples in dict.fromkeys(max(1, round(factor * batch)) for factor in _FACTORS):
        try:
            split, even = integer_split(model, samples), even_split(model, samples)
        except InputError:  # beyond what the devices hold at once
            continue
        predictions.append(
            {
                "batch": samples,
                "step_seconds": split.step_seconds,
                "local_batches": list(split.local_batches),
                "even_step_seconds": even.step_seconds,
                "samples_per_second": samples / split.step_seconds if split.step_seconds else None,
            }
        )
    return {
        **to_document(model),
        "batch": batch,
        "steps": learned.step,
        "assumed": learned.knowledge is None,
        "emulated": any(device.type.emulated for device in devices),
        "predictions": predictions,
    }


def _print(model: StepTimeModel, document: dict[str, Any]) -> None:
    """Print the profile for people."""
    console = output()
    lines = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("device", "type", "forward", "backward"):
        lines.add_column(column)
    for device in model.devices:
        passes = (_line(device.forward), _line(device.backward))
        lines.add_row(printable(device.name), printable(device.type), *passes)
    console.print(lines)
    if document["emulated"]:
        console.print("EMULATED devices: compute durations are declared.")
        if late := document.get("deadlines"):
            told = f"{late['missed']} of {late['device_steps']} device steps were late."
            console.print(void_note(late) if document["void"] else told, soft_wrap=True)
    if document["assumed"]:
        console.print(
            "One device alone: a tenth of a step is taken not to grow with the batch.",
            soft_wrap=True,
        )
    seconds = model.communication.seconds
    if len(model.devices) > 1:
        buckets = f"{len(seconds)} bucket" + ("s" if len(seconds) > 1 else "")
        console.print(f"Gradients: {buckets}, {sum(seconds) * 1e3:.1f} ms on the wire.")
    steps = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("batch", "step", "even split", "gain", "samples/s"):
        steps.add_column(column, justify="right")
    steps.add_column("split")
    for each in document["predictions"]:
        step, even = each["step_seconds"], each["even_step_seconds"]
        own = " *" if each["batch"] == document["batch"] else ""
        steps.add_row(
            f"{each['batch']}{own}",
            f"{step * 1e3:.1f} ms",
            f"{even * 1e3:.1f} ms",
            f"{even / step:.2f} x" if step and not document.get("void") else "-",
            f"{each['samples_per_second']:,.0f}" if step else "-",
            ",".join(map(str, each["local_batches"])),
        )
    console.print()
    console.print(steps)
    console.print("* the script's batch; the others are extrapolated.")


def _line(line: Line) -> str:
    text = f"{line.fixed * 1e3:.2f} ms + {line.per_sample * 1e3:.3f} ms a sample"
    return text + (f", {line.floor * 1e3:.2f} ms at least" if line.floor else "")
