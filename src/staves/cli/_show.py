"""`staves show`: all about one job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from staves.cli._output import print_json
from staves.cli._service import (
    AsJson,
    Job,
    ago,
    cell,
    client,
    configuration,
    epoch,
    lasting,
    milliseconds,
    print_table,
)
from staves.cli._spec_view import asked

_TIMES = ("submitted", "started", "finished")
_LONGEST_VALUE = 300  # characters


def show(job: Job, as_json: AsJson = False) -> None:
    """Show one job: what it asked for, how it stands, what it ran on, and its story."""
    with client() as service:
        document = service.job(job)
    if as_json:
        print_json(document)
        return
    for name, value in _lines(document):
        shown = cell(value)
        cut = shown[: _LONGEST_VALUE - 3] + "..." if len(shown) > _LONGEST_VALUE else shown
        typer.echo(f"{name + ':':<12} {cut}")
    if document["spans"]:
        typer.echo("")
        columns = ("devices", "for", "split", "step", "predicted", "even", "pause")
        print_table(columns, map(_span, document["spans"]))
    typer.echo("")
    rows = ((f"{ago(e['time'])} ago", e["event"], e["after"], e["text"]) for e in document["story"])
    print_table(("when", "event", "state", "what"), rows)


def _lines(document: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what is shown line by line; --json has all of it, as it is."""
    for name in ("id", "name", "state", "reason", "pending", "owner", "attempt"):
        yield name, document.get(name)
    yield "elastic", {True: "yes", False: "no"}.get(document["elastic"], "not known yet")
    yield "devices", ", ".join(document["devices"])
    for name in _TIMES:
        yield name, None if document[name] is None else f"{ago(document[name])} ago"
    progress = document["progress"] or {}
    yield "progress", ", ".join(_progress(document))
    yield "step time", ", ".join(_step_time(progress))
    if progress.get("metrics"):
        yield "metrics", ", ".join(f"{k} {cell(v)}" for k, v in progress["metrics"].items())
    yield from asked(document["spec"])
    yield "snapshot", document["snapshot"]
    yield "speeds", ", ".join(_speeds(document["knowledge"] or {}))


def _progress(document: dict[str, Any]) -> Iterator[str]:
    progress = document["progress"] or {}
    for name in ("step", "epoch", "loss", "batch"):
        value = epoch(document) if name == "epoch" else progress.get(name)
        if value is not None:
            yield f"{name} {cell(value)}"
    if progress.get("total_samples"):
        yield f"{progress.get('samples', 0)} of {progress['total_samples']} samples"


def _step_time(progress: dict[str, Any]) -> Iterator[str]:
    for name, what in (
        ("step_seconds", ""),
        ("predicted_step_seconds", " predicted"),
        ("even_step_seconds", " with an even split"),
    ):
        if progress.get(name) is not None:
            yield f"{milliseconds(progress[name])}{what}"


def _speeds(knowledge: dict[str, Any]) -> Iterator[str]:
    """Yield what has been learned of each device type: seconds a step, and more a sample."""
    from staves.steptime import type_of

    for key, (forward, backward) in (knowledge.get("lines") or {}).items():
        name = type_of(key)
        if name is not None:
            fixed, per_sample = (a + b for a, b in zip(forward[:2], backward[:2], strict=True))
            yield (f"{name} {milliseconds(fixed)} + {milliseconds(per_sample)} a sample")


def _span(span: dict[str, Any]) -> tuple[object, ...]:
    until = span.get("until")
    return (
        configuration(span["devices"]),
        f"since {ago(span['since'])}" if until is None else lasting(until - span["since"]),
        span.get("local_batches"),
        milliseconds(span.get("step_seconds")),
        milliseconds(span.get("predicted_step_seconds")),
        milliseconds(span.get("even_step_seconds")),
        milliseconds(span.get("pause_seconds")),
    )
