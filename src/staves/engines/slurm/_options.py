"""Options of `sbatch` that people add."""

from __future__ import annotations

from collections.abc import Sequence

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
