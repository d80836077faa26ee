"""What people may set: Staves' own options of the engine, and any of `sbatch`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from staves.documents import duration
from staves.errors import InputError, quoted

_OURS = {
    "array": "each Slurm job is one agent",
    "chdir": "it is STAVES_HOME",
    "comment": "it says whose the job is",
    "error": "it goes to the agent's log",
    "export": "agents need the environment",
    "gpus": "it follows from the devices",
    "gpus-per-node": "it follows from the devices",
    "gres": "it follows from the devices",
    "job-name": "a job is known by it",
    "nodelist": "the scheduler chooses the node",
    "nodes": "an agent is on one node",
    "no-requeue": "it is set anyway",
    "ntasks": "an agent is one task",
    "output": "it goes to the agent's log",
    "parsable": "it is set anyway",
    "requeue": "a lost agent is followed by another one",
    "signal": "it warns the agent of its time limit",
    "test-only": "no job would run",
    "wait": "agents are watched",
    "wrap": "the script is the agent's",
}


_TIME = re.compile(r"(\d+-)?\d+(:\d+){0,2}|unlimited|infinite", re.IGNORECASE)


def keywords(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return keywords of `SlurmNodes`, of what stands on a command line.

    Args:
        texts: `partition`, `account` and `time-limit` as Slurm takes them; `sbatch`: further
            options in one line; `holds`: device or group; `pending-within` and `notice`: `5m`.

    Raises:
        InputError: one is malformed.
    """
    found: dict[str, Any] = {}
    for name, text in texts.items():
        if name == "sbatch":
            found["options"] = _words(text)
        elif name in ("pending-within", "notice"):
            found[name.replace("-", "_")] = _seconds(name, text)
        elif name == "time-limit" and not _TIME.fullmatch(text):
            raise InputError(
                f"time-limit: {quoted(text)} is no time of Slurm",
                hint="minutes, hours:minutes:seconds, days-hours, or UNLIMITED",
            )
        elif name == "holds" and text not in ("device", "group"):
            raise InputError(f"holds: {quoted(text)} is none", hint="device or group")
        else:
            found[name.replace("-", "_")] = text
    return found


def _seconds(name: str, text: str) -> float:
    try:
        return duration(text)
    except InputError as error:
        raise InputError(f"{name}: {error.message}", hint=error.hint) from None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"sbatch: {quoted(text)}: {error}") from None


def checked(options: Sequence[str]) -> list[str]:
    """Return options of `sbatch` as on its command line.

    Args:
        options: `qos=high`, `--mem-per-gpu=32G`, `exclusive`.

    Raises:
        InputError: it is one that Staves sets itself, or a short one.
    """
    return [_checked(option) for option in options]


def _checked(option: str) -> str:
    name, _, _ = option.removeprefix("--").partition("=")
    if len(name) < 2 or name.startswith("-") or " " in name:
        raise InputError(
            f"Slurm option {quoted(option)}: not an option of sbatch",
            hint="write the long name: qos=high, mem-per-gpu=32G, exclusive",
        )
    if name in _OURS:
        raise InputError(
            f"Slurm option {quoted(option)}: {name} is set by Staves", hint=_OURS[name]
        )
    return f"--{option.removeprefix('--')}"
