"""`staves logs`: what a job has printed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staves.cli._output import messages, print_json
from staves.cli._service import AsJson, Job, client
from staves.errors import InputError

if TYPE_CHECKING:
    from staves.service import Client

_EVERY = 0.5  # seconds


def logs(
    job: Job,
    rank: Annotated[
        int, typer.Option(help="Of which rank.", metavar="R", min=0, show_default=True)
    ] = 0,
    attempt: Annotated[
        int | None,
        typer.Option(help="Of which attempt; the newest by default.", metavar="N", min=1),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what a job has printed, on one of its ranks."""
    if follow and as_json:
        raise InputError("--follow: not with --json", hint="one of the two")
    with client() as service:
        if follow:
            _follow(service, job, f"rank-{rank}", attempt)
            return
        about = service.logs(job, attempt)
        name = _log_of(about, rank)
        pieces, offset = [], 0
        while True:
            piece, offset = service.read_log(about["id"], name, offset=offset, attempt=attempt)
            if not piece:
                break
            if not as_json:
                _write(piece)
            pieces.append(piece if as_json else b"")
    if as_json:
        text = b"".join(pieces).decode(errors="replace")
        print_json({"job": about["id"], "attempt": about["attempt"], "log": name, "text": text})


def _log_of(about: dict[str, Any], rank: int) -> str:
    name = f"rank-{rank}"
    names = [log["name"] for log in about["logs"]]
    if name not in names:
        ranks = [each for each in names if each.startswith("rank-")]
        if ranks:
            problem, hint = f"there is no log of rank {rank}", "there are " + ", ".join(ranks)
        elif names:
            problem, hint = f"rank {rank} has printed nothing", f"see staves show {about['name']}"
        else:
            problem, hint = f"there is no log of rank {rank}", "it has not started yet"
        raise InputError(f"{about['name']}: {problem}", hint=hint)
    return name


def _follow(service: Client, job: str, name: str, attempt: int | None) -> None:
    """Print a log as it grows, through the attempts that follow unless one is named."""
    current, offset = attempt, 0
    while True:
        about = service.logs(job, attempt)  # before reading: what it printed last is there then
        if current is not None and about["attempt"] != current:
            # A new attempt has begun: of the last one, all that is left comes first.
            _drain(service, about["id"], name, offset, current)
            messages.print(f"staves: attempt {about['attempt']} begins")
            offset = 0
        current = about["attempt"]
        if any(log["name"] == name for log in about["logs"]):
            offset = _drain(service, about["id"], name, offset, current)
        if about["ended"]:
            return
        time.sleep(_EVERY)


def _drain(service: Client, job: str, name: str, offset: int, attempt: int | None) -> int:
    while True:
        piece, offset = service.read_log(job, name, offset=offset, attempt=attempt)
        if not piece:
            return offset
        _write(piece)


def _write(piece: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
