"""The job file: what people write to submit a job. Only `run` is required."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from staves.documents import Bytes, Document, Items, Seconds, read
from staves.errors import InputError, quoted
from staves.hardware import MOST_DEVICES
from staves.service._spec import LONGEST_NAME, MOST_SAMPLES, JobSpec


class DevicesEntry(Document):
    """Which devices the job can use."""

    min: int = Field(1, ge=1, le=MOST_DEVICES, description="it cannot run with fewer")
    max: int | None = Field(
        None, ge=1, le=MOST_DEVICES, description="by default as many as there are"
    )
    types: Items[str] | None = Field(None, description="by default all types")
    mix: Literal["allow", "forbid"] = Field("allow", description="several types at a time")


class BatchEntry(Document):
    """The total batch, in samples."""

    reference: int = Field(
        ge=1, le=MOST_SAMPLES, description="the batch that its hyperparameters are meant for"
    )
    max: int | None = Field(None, ge=1, le=MOST_SAMPLES, description="it never grows beyond")
    scaling: Literal["goodput", "fixed"] = "goodput"


class PreemptionEntry(Document):
    """How devices may be taken from the job."""

    guaranteed: int = Field(
        0, ge=0, le=MOST_DEVICES, description="devices that are never taken while it runs"
    )
    grace: Seconds = Field(30.0, description="how long a rank may take to a step boundary")


class CheckpointEntry(Document):
    """Where its checkpoints are, and how often they are made."""

    dir: str | None = Field(None, min_length=1, description="by default within the job's folder")
    every: Seconds | None = None


class SnapshotEntry(Document):
    """The copy of the working directory that the job runs in."""

    max: Bytes = Field(200 * 10**6, description="a larger one is refused")


class JobFile(Document):
    """A job. Relative paths are taken from `workdir`, and that from the file's folder."""

    name: str | None = Field(None, description="by default the name of the file")
    run: str = Field(min_length=1, description="a shell command line")
    workdir: str = Field(".", min_length=1)
    devices: DevicesEntry = DevicesEntry()
    batch: BatchEntry | None = None
    priority: int = Field(50, ge=0, le=100, description="a higher one goes first")
    deadline: Seconds | None = Field(
        None, description="how long after submission it should have ended, where the policy asks"
    )
    tenant: str | None = Field(
        None, min_length=1, description="whose quota it counts against; by default the submitter's"
    )
    preemption: PreemptionEntry = PreemptionEntry()
    checkpoint: CheckpointEntry = CheckpointEntry()
    env: dict[str, str] = Field({}, description="environment variables")
    pass_env: Items[str] = Field((), description="names of variables to copy when submitting")
    data: Items[str] = Field((), description="paths that are linked instead of copied")
    outputs: Items[str] = Field((), description="folders that the job writes to; linked, too")
    python: str | None = Field(None, min_length=1, description="by default the submitter's")
    launch: Literal["ranks", "once"] = Field(
        "ranks", description="start `run` for each device, or once with all of them"
    )
    retries: int = Field(3, ge=0, le=100, description="lost attempts that are made up for")
    snapshot: SnapshotEntry = SnapshotEntry()


def read_job(
    path: Path | str,
    *,
    types: Collection[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> JobSpec:
    """Read the job file at `path`.

    Args:
        path: the file.
        types: the device types of the cluster, where they are known.
        environ: where `pass_env` is taken from; this process's by default.

    Raises:
        InputError: as `staves.documents.read`; values contradict each other, a device type is not
            in the cluster, a path or a variable to copy is not there. One line, with the field.
    """
    file = read(path, JobFile)
    try:
        spec = _spec(file, Path(path).absolute(), os.environ if environ is None else environ)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from None
    spec.check_texts(str(path))
    if types is not None:
        spec.check_types(types, str(path))
    return spec


def job_schema() -> dict[str, Any]:
    """Return the JSON Schema of the job file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **JobFile.model_json_schema(),
        "title": "Staves job file",
    }


def _spec(file: JobFile, path: Path, environ: Mapping[str, str]) -> JobSpec:
    workdir = _path(path.parent, file.workdir, "workdir")
    if not workdir.is_dir():
        raise InputError(
            f"workdir: {workdir}: no such folder",
            hint="relative paths are taken from the job file's folder",
        )
    batch, checkpoint = file.batch, file.checkpoint.dir
    return JobSpec(
        name=_default_name(path) if file.name is None else file.name,
        run=file.run,
        workdir=workdir,
        python=_interpreter(file.python, workdir),
        minimum=file.devices.min,
        maximum=file.devices.max,
        types=file.devices.types,
        mix=file.devices.mix == "allow",
        reference=batch.reference if batch else None,
        max_batch=batch.max if batch else None,
        scaling=batch.scaling if batch else "goodput",
        priority=file.priority,
        deadline=file.deadline,
        tenant=file.tenant,
        guaranteed=file.preemption.guaranteed,
        grace=file.preemption.grace,
        checkpoint=None if checkpoint is None else _folder(workdir, checkpoint, "checkpoint.dir"),
        checkpoint_every=file.checkpoint.every,
        env=file.env,
        passed_env=_passed(file.pass_env, environ),
        data=_data(file.data, workdir),
        outputs=tuple(
            _folder(workdir, name, f"outputs[{place}]") for place, name in enumerate(file.outputs)
        ),
        per_device=file.launch == "ranks",
        retries=file.retries,
        max_snapshot=file.snapshot.max,
    )


def _path(base: Path, name: str, where: str) -> Path:
    try:
        if "\0" in name:
            raise ValueError("a zero byte in it")
        path = Path(name).expanduser()
    except (ValueError, RuntimeError) as error:  # there is no such user
        raise InputError(f"{where}: {quoted(name)} is no path: {error}", hint="write one") from None
    # Symbolic links are kept: a virtual environment is found by the place of its interpreter's.
    return Path(os.path.normpath(base / path))


def _part(workdir: Path, name: str, where: str) -> Path:
    """Return a path that is linked instead of copied."""
    path = _path(workdir, name, where)
    if path.resolve() == workdir.resolve():
        raise InputError(
            f"{where}: is workdir itself: nothing would be left to copy",
            hint="name a folder in it, or take it out",
        )
    return path


def _folder(workdir: Path, name: str, where: str) -> Path:
    """Return a folder that is made where it is not there."""
    path = _part(workdir, name, where)
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise InputError(f"{where}: {place}: is a file", hint="name a folder")
            break
    return path


def _data(names: tuple[str, ...], workdir: Path) -> tuple[Path, ...]:
    data = tuple(_part(workdir, name, f"data[{place}]") for place, name in enumerate(names))
    for place, original in enumerate(data):
        if not original.exists():
            raise InputError(
                f"data[{place}]: {original}: no such file or folder",
                hint="relative paths are taken from workdir",
            )
    return data


def _default_name(path: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).lstrip("._-")[:LONGEST_NAME] or "job"
    return f"job-{name}"[:LONGEST_NAME] if name.isdigit() else name


def _interpreter(name: str | None, workdir: Path) -> Path:
    path = Path(sys.executable) if name is None else _path(workdir, name, "python")
    if not os.access(path, os.X_OK) or path.is_dir():
        raise InputError(
            f"python: {path}: no such interpreter", hint="name one like .venv/bin/python"
        )
    return path


def _passed(names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    for place, name in enumerate(names):
        if name not in environ:
            raise InputError(
                f"pass_env[{place}]: {quoted(name)} is not set here",
                hint=f"export {name}, or take it out",
            )
    return {name: environ[name] for name in names}
