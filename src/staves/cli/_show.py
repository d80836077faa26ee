"""`staves show`: all about one job."""

from __future__ import annotations

from typing import Any

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, Job, ago, cell, client, lasting, print_table

_TIMES = ("submitted", "started", "finished")


def show(job: Job, as_json: AsJson = False) -> None:
    """Show one job: how it stands, what it ran on, and its story."""
    with client() as service:
        document = service.job(job)
    if as_json:
        print_json(document)
        return
    for name, value in document.items():
        if name in ("spans", "story"):
            continue
        if name in _TIMES:
            shown = "-" if value is None else f"{ago(value)} ago"
        elif name == "progress":
            shown = ", ".join(f"{key} {cell(part)}" for key, part in value.items()) or "-"
        else:
            shown = cell(value)
        typer.echo(f"{name + ':':<12} {shown}")
    if document["spans"]:
        typer.echo("")
        columns = ("devices", "for", "split", "step", "predicted", "even", "pause")
        print_table(columns, map(_span, document["spans"]))
    typer.echo("")
    rows = ((f"{ago(e['time'])} ago", e["event"], e["after"], e["text"]) for e in document["story"])
    print_table(("when", "event", "state", "what"), rows)


def _span(span: dict[str, Any]) -> tuple[object, ...]:
    until = span.get("until")
    return (
        span["devices"],
        f"since {ago(span['since'])}" if until is None else lasting(until - span["since"]),
        span.get("local_batches"),
        _milliseconds(span.get("step_seconds")),
        _milliseconds(span.get("predicted_step_seconds")),
        _milliseconds(span.get("even_step_seconds")),
        _milliseconds(span.get("pause_seconds")),
    )


def _milliseconds(seconds: float | dict[str, float] | None) -> str | None:
    if isinstance(seconds, dict):
        seconds = seconds.get("p50")
    return None if seconds is None else f"{seconds * 1e3:.1f} ms"
