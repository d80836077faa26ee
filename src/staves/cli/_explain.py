"""`staves explain`: why a job has the devices that it has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, Job, client, lasting, print_table
from staves.errors import printable


def explain(job: Job, as_json: AsJson = False) -> None:
    """Say why a job has the devices that it has, or none, and what the alternatives were."""
    with client() as service:
        document = service.explain(job)
    if as_json:
        print_json(document)
        return
    ended, state = "", document.get("state")  # an older service does not tell it
    if state in ("finished", "failed", "cancelled"):
        ended = f"it is {state}. The last decision about it was: "
    text = f"{ended}{printable(document['text'])}"
    typer.echo(f"{document['name']} (job {document['id']}): {text}")
    options = [("chosen", document["chosen"])] if document["chosen"] else []
    options += [("", option) for option in document["alternatives"]]
    if options:
        # Few policies have prices, and tell pauses; how sure a rate is, only past jobs tell.
        sure, further = (
            [head for head in heads if any(option.get(head) is not None for _, option in options)]
            for heads in (("log_std",), ("price", "pause"))
        )
        names = ["give or take"] * len(sure)
        print_table(
            ("", "devices", "samples/s", *names, "to its end", "utility", *further, "why not"),
            (_row(mark, option, sure, further) for mark, option in options),
        )


def _row(
    mark: str, option: dict[str, Any], sure: Sequence[str], further: Sequence[str]
) -> tuple[object, ...]:
    told = {"price": option.get("price"), "pause": _lasting(option.get("pause"))}
    return (
        mark or " ",
        option["configuration"],
        option.get("rate"),
        *(_share(option.get(head)) for head in sure),
        _lasting(option.get("seconds")),  # None: no end is known
        option.get("utility"),
        *(told[head] for head in further),
        None if mark else option.get("why"),
    )


def _lasting(seconds: float | None) -> str | None:
    return None if seconds is None else lasting(seconds)


def _share(log_std: float | None) -> str | None:
    """Return a standard deviation of ln(rate) as a share of the rate, upwards."""
    return None if log_std is None else f"{100 * math.expm1(log_std):.0f} %"
