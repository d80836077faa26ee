"""`staves plan`: which split to expect, before training."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from staves.cli._job_plan import JobPlan, describe, plan_job
from staves.cli._output import output, print_json, warn
from staves.errors import InputError, printable, quoted
from staves.hardware import Configuration

if TYPE_CHECKING:
    from staves.steptime import Split, StepTimeModel

_LARGEST = 2**53  # samples


def plan(
    job: Annotated[
        Path | None,
        typer.Argument(
            help="A job file: what it can expect of a cluster.", metavar="[JOB]", show_default=False
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            "--cluster",
            metavar="FILE",
            help="With JOB: a cluster file; by default the service's, or else this machine.",
        ),
    ] = None,
    steptime: Annotated[
        Path | None, typer.Option("--steptime", metavar="FILE", help="A step-time file (JSON).")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="B", help="Samples a step, to be split.")
    ] = None,
    noise_scale: Annotated[
        float | None,
        typer.Option(
            "--noise-scale",
            metavar="PHI",
            help="Gradient noise scale in samples: choose the batch of greatest goodput.",
        ),
    ] = None,
    reference: Annotated[
        int | None,
        typer.Option("--reference", metavar="B0", help="With --noise-scale: the smallest batch."),
    ] = None,
    max_batch: Annotated[
        int | None,
        typer.Option("--max-batch", metavar="M", help="With --noise-scale: the largest batch."),
    ] = None,
    allow_leave_out: Annotated[
        bool, typer.Option("--allow-leave-out", help="Devices may be left out of the job.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the optimal split of a batch and what it gains, before training.

    Of the devices of a step-time file; or of those that are best for a job, by what earlier jobs of
    its name have learned, by a step-time file, or by the cluster's emulated types.
    """
    _check_sources(job, cluster, steptime, noise_scale)
    _check_options(batch, noise_scale, reference, max_batch, job_given=job is not None)
    # numpy and scipy load with the command that needs them, not with `staves --help`.
    from staves.convergence import best_batch
    from staves.steptime import integer_split, read_model

    about: JobPlan | None = None
    goodput = None
    if job is not None:
        about = plan_job(job, cluster=cluster, steptime=steptime, batch=batch)
        model, batch = about.model, about.batch
    else:
        assert steptime is not None
        model = read_model(steptime, on_warning=warn)
    if noise_scale is not None and reference is not None and max_batch is not None:
        with _about("--reference, --max-batch"):
            best = best_batch(
                model, noise_scale, reference, max_batch, allow_leave_out=allow_leave_out
            )
        split, goodput = best.split, best.goodput
    else:
        assert batch is not None
        with _about("--batch"):
            split = integer_split(model, batch, allow_leave_out=allow_leave_out)
    even = _even(model, split)
    local, out = split.local_batches, split.left_out
    document: dict[str, Any] = {
        "batch": split.batch,
        "step_seconds": split.step_seconds,
        "local_batches": list(local),
        "even": {"step_seconds": even.step_seconds, "local_batches": list(even.local_batches)},
        "bottleneck": list(model.bottlenecks(local)),
        "idle_share": model.idle_share(local, out).tolist(),
    }
    if allow_leave_out:
        document["left_out"] = [model.devices[i].name for i in out]
    if goodput is not None:
        document["goodput"] = goodput
    if json:
        print_json(document | (about.document if about else {}))
        return
    for line in describe(about) if about else ():
        output().print(line, soft_wrap=True)
    _print(model, document, out)
    if about is not None:
        _print_options(about)


def _check_sources(
    job: Path | None, cluster: Path | None, steptime: Path | None, noise_scale: float | None
) -> None:
    """Refuse what does not say, or says twice, what to plan for."""
    if job is None and steptime is None:
        raise InputError(
            "--steptime is missing", hint="name a step-time file: --steptime FILE, or a job file"
        )
    if job is not None and job.suffix == ".py":
        raise InputError(
            f"{job}: is a script, not a job file", hint=f"measure it: staves profile {job}"
        )
    if job is None and cluster is not None:
        raise InputError("--cluster goes with a job file", hint="staves plan JOB --cluster FILE")
    if job is not None and noise_scale is not None:
        raise InputError(
            "--noise-scale does not go with a job file", hint="it needs --steptime alone"
        )


def _check_options(
    batch: int | None,
    noise_scale: float | None,
    reference: int | None,
    max_batch: int | None,
    *,
    job_given: bool,
) -> None:
    """Refuse options that do not go together, and numbers that are none."""
    if (batch is None) == (noise_scale is None) and not job_given:
        raise InputError(
            "give either --batch or --noise-scale"
            + (", not both" if batch is not None else ", one of the two"),
            hint="--batch B, or --noise-scale PHI --reference B0 --max-batch M",
        )
    for name, value in (("--reference", reference), ("--max-batch", max_batch)):
        if noise_scale is not None and value is None:
            raise InputError(f"{name} is missing", hint="--noise-scale needs it")
        if noise_scale is None and value is not None:
            raise InputError(
                f"{name} goes with --noise-scale, not with --batch", hint="leave one of them out"
            )
    for name, value in (("--batch", batch), ("--reference", reference), ("--max-batch", max_batch)):
        if value is not None and not 1 <= value <= _LARGEST:
            raise InputError(
                f"{name} must be from 1 to 2^53, but is {quoted(value)}",
                hint="raise it" if value < 1 else "lower it",
            )
    if noise_scale is not None and not (noise_scale >= 0 and math.isfinite(noise_scale)):
        raise InputError(
            f"--noise-scale must be finite and not negative, but is {noise_scale}",
            hint="give it in samples",
        )


@contextlib.contextmanager
def _about(options: str) -> Iterator[None]:
    """Name the options that a refusal is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{options}: {error.message}", hint=error.hint) from None


def _even(model: StepTimeModel, split: Split) -> Split:
    """Return the even split; over the devices kept, where all of them cannot hold the batch."""
    from staves.steptime import Split, StepTimeModel, even_split

    if split.batch >= sum(device.min_batch for device in model.devices):
        return even_split(model, split.batch)
    kept = [i for i in range(len(model.devices)) if i not in split.left_out]
    devices = tuple(model.devices[i] for i in kept)
    part = even_split(StepTimeModel(devices, model.communication), split.batch)
    shares = dict(zip(kept, part.local_batches, strict=True))
    local = tuple(shares.get(i, 0) for i in range(len(model.devices)))
    return Split(split.batch, local, part.step_seconds, split.left_out)


def _print(model: StepTimeModel, document: dict[str, Any], left_out: tuple[int, ...]) -> None:
    """Print the plan for people."""
    batch, step = document["batch"], document["step_seconds"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("device", "type"):
        table.add_column(column)
    for column in ("local batch", "share", "time", "idle"):
        table.add_column(column, justify="right")
    table.add_column("bottleneck")
    seconds = model.device_seconds(document["local_batches"])
    for i, device in enumerate(model.devices):
        if i in left_out:
            cells = ["-", "-", "-", "-", "left out"]
        else:
            local = document["local_batches"][i]
            cells = [
                str(local),
                f"{local / batch:.1%}",
                _milliseconds(float(seconds[i])),
                f"{document['idle_share'][i]:.1%}",
                document["bottleneck"][i],
            ]
        table.add_row(printable(device.name), printable(device.type), *cells)
    console = output()
    console.print(table)
    even = document["even"]["step_seconds"]
    faster = f"{even / step:.2f} times as fast" if step > 0 else "no faster"
    console.print(
        f"\nA step of {batch} samples takes {_milliseconds(step)}, an even split "
        f"{_milliseconds(even)}: {faster}.",
        soft_wrap=True,
    )
    if "goodput" in document:
        console.print(f"Goodput: {document['goodput']:.6g} effective samples a second.")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _print_options(about: JobPlan) -> None:
    """Print what other numbers of devices would give."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("devices")
    for column in ("samples/s", "against one device", "against an even split"):
        table.add_column(column, justify="right")
    for option in about.document["options"]:
        even, step, alone = (
            option[key] for key in ("even_step_seconds", "step_seconds", "speed_up")
        )
        table.add_row(
            printable(str(Configuration(option["devices"]))),
            f"{option['samples_per_second']:,.0f}",
            "-" if alone is None else f"{alone:.2f} x",
            "-" if even is None else f"{even / step:.2f} x",
        )
    console = output()
    console.print()
    console.print(table)
    if not about.document["communication_known"]:
        console.print("Communication: 3 % a further device are assumed.", soft_wrap=True)
