"""The environment of a job: what it runs with, independent of whoever started the service."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from staves.engines._base import Launch
from staves.hardware import Device
from staves.service._leftovers import MARK
from staves.service._rows import Job

_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|PYTHONPATH"
    r"|CUDA_HOME|CUDA_PATH|NCCL_\w+|GLOO_\w+"
)
"""Variables of the service's own environment that every job gets. Others come from the job file:
`env` and `pass_env`."""


def launch_of(job: Job, devices: Sequence[Device], *, home: Path, workdir: Path) -> Launch:
    """Return the launch of the job's current attempt.

    Args:
        job: as it is stored; its record says which attempt.
        devices: to begin with.
        home: the folder of everything Staves keeps.
        workdir: the job's private copy of the working directory.
    """
    spec = job.spec
    return Launch(
        job=job.id,
        attempt=job.record.attempt,
        command=spec.run,
        per_device=spec.per_device,
        devices=tuple(devices),
        workdir=workdir,
        environ=environment(job, os.environ, home=home),
        minimum=spec.minimum,
        grace=spec.grace,
        checkpoint=spec.checkpoint or job_folder(home, job.id) / "checkpoint",
        checkpoint_every=spec.checkpoint_every,
    )


def job_folder(home: Path, job: str) -> Path:
    """Return the folder of a job."""
    return home / "jobs" / job


def environment(job: Job, own: Mapping[str, str], *, home: Path) -> dict[str, str]:
    """Return the whole environment of a job's command.

    Args:
        job: as it is stored.
        own: the service's environment.
        home: the folder of everything Staves keeps.
    """
    spec = job.spec
    environ = {name: value for name, value in own.items() if _KEPT.fullmatch(name)}
    # `python` in the job's command is the interpreter that it was submitted with.
    paths = [str(spec.python.parent), environ.get("PATH", os.defpath)]
    environ["PATH"] = os.pathsep.join(paths)
    if spec.reference is not None:
        environ["STAVES_BATCH"] = str(spec.reference)
    environ |= {**spec.passed_env, **spec.env}
    return environ | {"STAVES_HOME": str(home), "STAVES_JOB": job.id, MARK: str(home)}
