"""Files in Staves's own form, from whatever was read."""

from __future__ import annotations

import csv
import io
import math

import yaml

from staves.errors import InputError
from staves.hardware import to_document
from staves.simulation._availability import Availability
from staves.simulation._workload import Request, Workload
from staves.simulation.readers import COLUMNS, OPTIONAL, Contents, NodeList


def to_own_form(contents: Contents) -> str:
    """Return the text of a workload (CSV), a cluster file (YAML) or an estimator's table (CSV).

    Reading it again gives the same jobs, nodes or throughputs.

    Raises:
        InputError: the contents are an availability trace, which has no form of ours.
    """
    if isinstance(contents, Availability):
        raise InputError(
            f"{contents.name}: availability needs no conversion",
            hint="staves simulate --availability takes it as it is",
        )
    if isinstance(contents, NodeList):
        return yaml.safe_dump(to_document(contents.cluster), sort_keys=False)
    if isinstance(contents, Workload):
        return _workload(contents)
    return contents.to_csv()


def _workload(workload: Workload) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, (*COLUMNS, *OPTIONAL), lineterminator="\n")
    writer.writeheader()
    for request in workload.requests:
        writer.writerow(_cells(request))
    return text.getvalue()


def _cells(request: Request) -> dict[str, object]:
    return {
        "name": request.name,
        "time": repr(request.time),
        "application": request.application,
        "num_replicas": request.devices,
        "batch_size": request.batch,
        "kind": request.kind,
        "minimum": request.minimum,
        "maximum": request.maximum,
        "weight": repr(request.weight) if request.weight != 1 else None,
        "preemptible": None if request.preemptible else 0,
        "seconds": None if request.seconds is None else repr(request.seconds),
        "steps": None if request.steps is None else repr(request.steps),
        "deadline": repr(request.deadline) if math.isfinite(request.deadline) else None,
        "types": None if request.types is None else "|".join(request.types),
        "share": repr(request.share) if request.share != 1 else None,
        "tenant": request.tenant or None,
    }
