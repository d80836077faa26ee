"""What people see when the demo is over: a row a job, and what the uneven splits gained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import HORIZONTALS
from rich.table import Table

from examples.demo._view import by_type


def final_table(summary: Mapping[str, Any]) -> Table:
    """Draw the jobs of `demo/summary.json`.

    Beside that file's fixed keys a job may have `spans` (a list of `devices` and `since`, in
    seconds of the demo), `metrics` (by name) and `void`.
    """
    drawn = Table(title="The jobs (EMULATED devices)", show_lines=True, padding=0, box=HORIZONTALS)
    drawn.add_column("job")
    drawn.add_column("JCT", justify="right", no_wrap=True)
    drawn.add_column("devices since", no_wrap=True)
    drawn.add_column("split")
    drawn.add_column("step (ms)", no_wrap=True)
    drawn.add_column("reached")
    for job in summary["jobs"]:
        drawn.add_row(
            job["name"],
            f"{job['jct_seconds']:.0f} s",
            devices_over_time(job),
            " ".join(map(str, job["local_batches"])),
            step(job),
            reached(job),
        )
    return drawn


def devices_over_time(job: Mapping[str, Any]) -> str:
    """Return a line for each time that the job got other devices, and what those changes cost.

    Where the times are not known, the types that it ran on.
    """
    spans: Sequence[Mapping[str, Any]] = job.get("spans", ())
    lines = [f"{span['since']:.0f} s {by_type(span['devices'])}" for span in spans]
    lines = lines or ["+".join(job["device_types"])]
    if job["rescales"]:
        lines.append(f"rescaled {job['rescales']}x{_pauses(job['pauses_seconds'])}")
    return "\n".join(lines)


def _pauses(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    shortest, longest = f"{min(seconds):.1f}", f"{max(seconds):.1f}"
    return f": {shortest} s" if shortest == longest else f": {shortest} to {longest} s"


def step(job: Mapping[str, Any]) -> str:
    """Return the step time as predicted and measured, and that of the even split."""
    named = (
        ("predicted", job["predicted_step_seconds"]),
        ("measured", job["step_seconds"]),
        ("even", job["even_step_seconds"]),
    )
    lines = [f"{name} {seconds * 1e3:.0f}" for name, seconds in named if seconds is not None]
    return "\n".join([*lines, *(["VOID (late)"] if job.get("void") else [])])


def reached(job: Mapping[str, Any]) -> str:
    """Return the loss at first and at last, and the metrics at the end."""
    first, last = job["loss"]["first"], job["loss"]["last"]
    lines = [] if first is None or last is None else [f"loss {first:.2f} to {last:.2f}"]
    metrics: Mapping[str, float] = job.get("metrics", {})
    lines += [f"{name.replace('_', ' ')} {value:.3g}" for name, value in metrics.items()]
    return "\n".join(lines)
