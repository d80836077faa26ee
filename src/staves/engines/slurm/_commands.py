"""Slurm's own commands: they are there wherever jobs may be submitted, and need no key of ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from staves.errors import StavesError

_PATIENCE = 60.0  # seconds: a controller that fails over answers late
_LINES = 3  # of what it has said, that are shown: the cause is often not in the last
_OF_A_JOB = ("SLURM_JOB", "SLURM_STEP", "SLURM_TASK", "SLURM_NODE", "SLURM_CPU", "SLURM_MEM")


class CommandError(StavesError):
    """A command of Slurm failed."""


def run(*words: str, text: str = "", environ: Mapping[str, str] | None = None) -> str:
    """Run a command of Slurm and return what it printed.

    Args:
        words: the command line.
        text: for its standard input.
        environ: added to its environment.

    Raises:
        CommandError: it is not installed, failed, or did not answer; with its own last lines.
    """
    try:
        done = subprocess.run(
            words,
            input=text,
            env={**surroundings(), **(environ or {})},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        raise CommandError(
            f"{words[0]} is not installed here",
            hint="start the service on a machine from which Slurm jobs are submitted",
        ) from None
    except subprocess.TimeoutExpired:
        raise CommandError(f"{words[0]} has not answered within {_PATIENCE:g} s") from None
    if done.returncode != 0:
        raise CommandError(_words(words[0], done.stderr) or f"exit status {done.returncode}")
    return done.stdout


def _words(command: str, stderr: str) -> str:
    """Return what a command said on one line, but for where its usage is told."""
    said = [line.strip().removeprefix(f"{command}: ") for line in stderr.splitlines()]
    return "; ".join([line for line in said if line and "--help" not in line][-_LINES:])


def surroundings() -> dict[str, str]:
    """Return this process's environment without what a Slurm job it may run in has put there.

    Nested, these would tell a job of ours the sizes and names of another.
    """
    return {name: word for name, word in os.environ.items() if not name.startswith(_OF_A_JOB)}
