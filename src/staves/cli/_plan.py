"""`staves plan`: which split to expect, before training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from staves.cli._output import print_json
from staves.errors import InputError


def plan(
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
    """Show the optimal split of a batch and what it gains, before training."""
    if steptime is None:
        raise InputError("--steptime is missing", hint="name a step-time file: --steptime FILE")
    _check_options(batch, noise_scale, reference, max_batch)
    # numpy and scipy load with the command that needs them, not with `staves --help`.
    from staves.convergence import best_batch
    from staves.steptime import integer_split, read_model

    model = read_model(steptime)
    goodput = None
    if noise_scale is not None and reference is not None and max_batch is not None:
        best = best_batch(model, noise_scale, reference, max_batch, allow_leave_out=allow_leave_out)
        split, goodput = best.split, best.goodput
    else:
        assert batch is not None
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
        print_json(document)
    else:
        _print(model, document, out)
