"""`staves schema`: the JSON Schema of a file that people write, for editors and checks."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from staves.cli._output import print_json


class Kind(StrEnum):
    """Files that have a schema."""

    JOB = "job"
    CLUSTER = "cluster"


def schema(kind: Annotated[Kind, typer.Argument(help="Of which file.")]) -> None:
    """Print the JSON Schema of the job file or of the cluster file."""
    if kind is Kind.JOB:
        from staves.service import job_schema

        print_json(job_schema())
    else:
        from staves.hardware import cluster_schema

        print_json(cluster_schema())
