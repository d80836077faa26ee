"""What `staves export` does: from a job file to a manifest, with errors that name the file."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import staves
from staves.cli._service import service_packages
from staves.documents import field_path, read
from staves.errors import InputError
from staves.kubernetes import (
    Platform,
    Workload,
    document,
    groups_of,
    jobset,
    notes,
    object_name,
    to_yaml,
    trainjob,
)


class Exported:
    """A job as a manifest, made and checked.

    Args:
        kind: "jobset" or "trainjob".
        job: the job file.
        workload: what it says.
        platform: what the options say.

    Raises:
        InputError: a cluster would refuse it, or the kind cannot say it.
    """

    def __init__(self, kind: str, job: Path, workload: Workload, platform: Platform) -> None:
        with _located(job):
            build = trainjob if kind == "trainjob" else jobset
            manifest = build(workload, platform)
        remarks = notes(workload, platform, kind)
        first = f"The job {workload.name}, written by staves {staves.__version__}."
        self.text = to_yaml(manifest, (first, *remarks))
        self.document: dict[str, Any] = {
            "manifest": document(manifest),
            "run_on_a_cluster": False,
            "notes": remarks,
        }


def workload_of(job: Path, count: str | None, name: str | None) -> Workload:
    """Read the job file; variables that it copies need no value here, and get none.

    Args:
        job: the file.
        count: its devices, as `--count` has them.
        name: of the object; None: made from the job's.

    Raises:
        InputError: as `staves submit` for a malformed file; the devices are not the job's.
    """
    with service_packages():
        from staves.service import JobFile, read_job
    file = read(job, JobFile)
    spec = read_job(job, environ=dict.fromkeys(file.pass_env, ""))
    with _located(job):
        groups = groups_of(
            count, minimum=spec.minimum, maximum=spec.maximum, types=spec.types, mix=spec.mix
        )
    places = {
        "workdir": True,
        "python": file.python is not None,
        "checkpoint.dir": file.checkpoint.dir is not None,
        "data": file.data,
        "outputs": file.outputs,
    }
    unsaid = {
        "batch": file.batch is not None,
        "deadline": file.deadline is not None,
        "tenant": file.tenant is not None,
        "preemption.guaranteed": file.preemption.guaranteed,
    }
    return Workload(
        name=object_name(spec.name) if name is None else name,
        run=spec.run,
        groups=groups,
        minimum=spec.minimum,
        maximum=spec.maximum,
        once=not spec.per_device,
        priority=spec.priority,
        grace=math.ceil(spec.grace),
        retries=spec.retries,
        env=spec.env,
        secrets=tuple(spec.passed_env),
        checkpoint_every=spec.checkpoint_every,
        places=tuple(field for field, there in places.items() if there),
        unsaid=tuple(field for field, there in unsaid.items() if there),
    )


@contextlib.contextmanager
def _located(job: Path) -> Iterator[None]:
    """Have errors name the job file, unless they name an option."""
    try:
        yield
    except ValidationError as error:  # single texts were looked at before: it is too much of them
        first = error.errors(include_url=False)[0]
        place = field_path((error.title, *first["loc"]))
        raise InputError(
            f"{job}: a cluster would refuse {place}: {first['msg']}", hint="shorten the job file"
        ) from None
    except InputError as error:
        if error.message.startswith("--"):
            raise
        raise InputError(f"{job}: {error.message}", hint=error.hint) from None
