"""`staves trace`: files of jobs, nodes, availability and throughputs, shown and converted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from staves.cli._bounds import check_within
from staves.cli._destination import check_file
from staves.cli._output import messages, output, print_json
from staves.cli._service import cell, print_table
from staves.errors import InputError

trace = typer.Typer(
    help="Show and convert public files: jobs, nodes, availability, throughputs.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="See docs/traces.md; .gz or not.")]


@trace.command()
def show(
    file: File,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw a picture there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what a file holds, and what was dropped and why."""
    from staves.simulation import describe, read_file, write_plot

    if plot is not None:
        check_file("--plot", plot, sources=[file])
    found = read_file(file)
    document = describe(found)
    if plot is not None:
        write_plot(found, plot)
        messages.print(f"staves: the picture is {plot}")
    if as_json:
        print_json(document)
    else:
        _print(document)


@trace.command()
def convert(
    file: File,
    to: Annotated[Path, typer.Option("--output", metavar="FILE", help="Write it there.")],
    since: Annotated[
        float, typer.Option("--since-hours", metavar="H", help="Of jobs: those that come then on.")
    ] = 0.0,
    hours: Annotated[
        float, typer.Option("--hours", metavar="H", help="Of jobs: those that come within.")
    ] = math.inf,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Of jobs: those of this one.")
    ] = None,
) -> None:
    """Write a file in Staves's own form: a workload, a cluster file, or the estimator's table."""
    from staves.simulation import Workload, describe, part, read_file, to_own_form

    check_within("--since-hours", since, 0, 1e9, hint="0: from the first job on")
    if not hours > 0:
        raise InputError(f"--hours must be above zero, not {hours:g}", hint="like 24")
    check_file("--output", to, sources=[file])
    found = read_file(file)
    contents = found.contents
    chosen = since != 0 or hours != math.inf or tenant is not None
    if chosen and not isinstance(contents, Workload):
        raise InputError(
            f"{file}: holds {found.format.holds}: --since-hours, --hours and --tenant choose jobs",
            hint="leave them out",
        )
    if isinstance(contents, Workload):
        contents = part(contents, since * 3600, hours * 3600, tenant)
    to.write_text(to_own_form(contents))
    document = describe(found)
    for trouble in document["dropped"]:
        messages.print(f"staves: {trouble['lines']} lines {trouble['what']}, and were dropped")
    messages.print(f"staves: {to} holds the {document['holds']} of {file}")


def _print(document: dict[str, Any]) -> None:
    rows = []
    for key, value in document.items():
        if key in ("dropped", "noted", "assumed"):
            continue
        for name, part in _flat(key, value):
            rows.append((name.replace("_", " "), cell(part)))
    print_table(("what", "value"), rows)
    for key, heading in (("dropped", "dropped"), ("noted", "kept")):
        if document[key]:
            print_table(
                (heading, "lines", "first line"),
                [(one["what"], one["lines"], cell(one["first_line"])) for one in document[key]],
            )
    for assumption in document["assumed"]:
        output().print(f"assumed: {assumption}")


def _flat(key: str, value: Any) -> list[tuple[str, Any]]:
    """Return rows for a value: one a key where a mapping holds times or more mappings."""
    if key == "device_seconds":
        return [("device hours", None if value is None else _rounded(value / 3600))]
    if key.endswith("_seconds"):
        name = key.removesuffix("_seconds")
        if isinstance(value, dict):
            return [(f"{name}, {part}", _lasting(seconds)) for part, seconds in value.items()]
        return [(name, None if value is None else _lasting(value))]
    if key == "demand":
        return [
            ("demand of", value["of"]),
            ("demand, mean devices", _rounded(value["mean"])),
            ("demand, peak devices", _rounded(value["peak"])),
            ("demand over time", _bars(value["devices"])),
        ]
    if isinstance(value, dict) and any(isinstance(v, (float, dict)) for v in value.values()):
        return [(f"{key}, {name}", part) for name, part in value.items()]
    if isinstance(value, dict):
        return [(key, ", ".join(f"{name}: {number}" for name, number in value.items()))]
    return [(key, value)]


def _lasting(seconds: float) -> str:
    """Return a duration in the largest unit of which there are two at least, as people say it."""
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{_rounded(seconds / unit)} {name}"
    return f"{_rounded(seconds)} s"


def _rounded(value: float) -> str:
    """Return three digits, or all whole ones."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _bars(values: list[float]) -> str:
    """Return a curve as a line of bars."""
    marks = " ▁▂▃▄▅▆▇█"
    most = max(values) or 1.0
    return "".join(marks[round(value / most * (len(marks) - 1))] for value in values)
