"""What `staves run` and `staves profile` check before they start workers."""

from __future__ import annotations

import difflib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from staves.cli._output import messages, warn
from staves.engines.local import Outcome
from staves.errors import InputError, StavesError
from staves.hardware import Cluster, Device, read_cluster, this_machine

MOST_WORKERS = 512
"""More processes than this on one machine are a mistake in the file."""


def chosen_cluster(devices: Path | None) -> Cluster:
    """Return the cluster of a file; this machine without one."""
    return this_machine() if devices is None else read_cluster(devices)


def warn_of_near_options(arguments: Sequence[str], known: Sequence[str]) -> None:
    """Say which arguments of the script look like misspelt options of staves."""
    for argument in arguments:
        near = difflib.get_close_matches(argument.partition("=")[0], known, n=1, cutoff=0.8)
        if argument.startswith("--") and near:
            warn(f"{argument} goes to the script; did you mean {near[0]}?")


def choose_devices(devices: tuple[Device, ...], minimum: int, maximum: int | None) -> list[Device]:
    """Return the devices to train on, in rank order.

    Raises:
        InputError: the bounds contradict each other, or there are too few or too many devices.
    """
    if minimum < 1:
        raise InputError(f"--min: {minimum} is not a positive number of devices")
    if maximum is not None and maximum < 1:
        raise InputError(f"--max: {maximum} is not a positive number of devices")
    if maximum is not None and maximum < minimum:
        raise InputError(f"--min: {minimum} is above --max {maximum}", hint="swap them, perhaps")
    if len(devices) < minimum:
        raise InputError(
            f"--min: {minimum} devices are wanted, there are {len(devices)}",
            hint="name more in --devices, or lower --min",
        )
    chosen = list(devices[:maximum])
    if len(chosen) > MOST_WORKERS:
        raise InputError(
            f"{len(chosen)} devices are too many workers for one machine",
            hint=f"use at most {MOST_WORKERS}: --max {MOST_WORKERS}",
        )
    return chosen


def script_path(script: str) -> Path:
    """Return the path of a script.

    Raises:
        InputError: there is none.
    """
    path = Path(script)
    if script.startswith("-"):
        raise InputError(
            f"unknown option {script} before the script",
            hint="options of the script go behind it: staves run SCRIPT [ARGS]",
        )
    if not path.exists():
        raise InputError(f"{script}: no such script", hint="check the path")
    if not path.is_file():
        raise InputError(f"{script}: is not a file", hint="name a Python script")
    return path


def overrides(batch: int | None, split: str | None, devices: list[Device]) -> dict[str, str]:
    """Return the environment that has the options override the script.

    Raises:
        InputError: the devices cannot be given such a batch or split.
    """
    environ = {}
    if batch is not None:
        if batch < 1:
            raise InputError(f"--batch: {batch} is not a positive number of samples")
        least = sum(d.type.profile.min_batch for d in devices if d.type.profile)
        if batch < least:
            raise InputError(f"--batch: {batch} is below the devices' min_batch, {least} in all")
        environ["STAVES_BATCH"] = str(batch)
    if split is not None:
        if split not in ("auto", "even"):
            _check_split(split, batch, len(devices))
        environ["STAVES_SPLIT"] = split
    return environ


def _check_split(split: str, batch: int | None, devices: int) -> None:
    try:
        parts = [int(part) for part in split.split(",")]
    except ValueError:
        raise InputError(
            f"--split: {split!r} is no split", hint="auto, even, or samples like 24,8"
        ) from None
    if len(parts) != devices or min(parts) < 0:
        raise InputError(
            f"--split: {split!r} does not give {devices} devices their samples",
            hint="one number, 0 or more, for each device",
        )
    if batch is not None and sum(parts) != batch:
        raise InputError(f"--split: {split!r} sums to {sum(parts)}, --batch is {batch}")


def raise_failure(outcome: Outcome) -> None:
    """Raise what ends the command with the right exit code where the run did not end well.

    Raises:
        InputError: the script's arguments to staves were refused.
        StavesError: the script, or the run, has failed.
        KeyboardInterrupt, SystemExit: a signal has ended it.
    """
    if outcome.stopped_by is not None:
        if outcome.told == "saved":
            line = "saved; the same command goes on from there"
            messages.print(f"staves: {line}", markup=False)
        if outcome.stopped_by == signal.SIGINT:
            raise KeyboardInterrupt
        messages.print("staves: ended by SIGTERM", markup=False)
        raise SystemExit(128 + outcome.stopped_by)
    if outcome.refusal is not None:
        raise InputError(outcome.refusal["message"], hint=outcome.refusal["hint"])
    if outcome.failed is not None:
        rank, name = outcome.failed
        if outcome.traceback:
            print(
                f"--- what the script printed last on rank {rank} ({name}) ---\n"
                f"{outcome.traceback}\n--- end of the script's output ---",
                file=sys.stderr,
            )
        log = f"its whole output: {outcome.log}"
        raise StavesError(
            f"the script {outcome.failure()}",
            hint=f"{outcome.advice}; {log}" if outcome.advice else log,
        )
    if outcome.reason is not None:
        raise StavesError(outcome.reason)
