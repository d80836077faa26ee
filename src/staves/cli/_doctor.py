"""`staves doctor`: what is wrong with this installation, or with a job's history."""

from __future__ import annotations

from typing import Annotated

import typer

from staves.cli._output import print_json
from staves.engines.local import RunFolder, newest_attempt, staves_home
from staves.errors import StavesError


def doctor(
    job: Annotated[
        str | None,
        typer.Option(help="Prove from its ledger that each sample was used once.", metavar="JOB"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a job's ledger (--job), or this installation."""
    if job is not None:
        _check_job(job, as_json)
    else:
        _check_installation(as_json)


def _check_job(job: str, as_json: bool) -> None:
    from staves.engines.local import job_ledger
    from staves.membership import prove

    home = staves_home()
    folder = newest_attempt(home, job) or RunFolder.find(home, job)
    path, length, rows = job_ledger(folder)
    proof = prove(rows, length)
    document = {
        "job": folder.name,
        "ledger": str(path),
        "exactly_once": proof.ok,
        "samples": length,
        "steps": proof.steps,
        "problems": list(proof.problems),
    }
    if as_json:
        print_json(document)
    else:
        verdict = "each sample once an epoch" if proof.ok else "NOT each sample once"
        typer.echo(f"staves: {folder.name}: {proof.steps} steps, {verdict}")
        for problem in proof.problems:
            typer.echo(f"staves:   {problem}")
    if not proof.ok:
        raise StavesError(f"{folder.name}: {len(proof.problems)} problems in {path}")


def _check_installation(as_json: bool) -> None:
    import importlib.util
    import platform

    found = {name: importlib.util.find_spec(name) is not None for name in ("torch", "psutil")}
    document = {"python": platform.python_version(), "home": str(staves_home()), **found}
    if found["torch"]:
        import torch

        document |= {"torch": torch.__version__, "gpus": torch.cuda.device_count()}
    if as_json:
        print_json(document)
        return
    for name, value in document.items():
        typer.echo(f"staves: {name}: {value}")
    if not found["torch"]:
        typer.echo("staves: training needs torch: pip install 'staves[train]'")
