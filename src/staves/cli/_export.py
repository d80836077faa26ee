"""`staves export`: a job file as a manifest for Kubernetes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from staves.cli._destination import check_file
from staves.cli._output import messages, print_json
from staves.cli._service import AsJson
from staves.errors import InputError


class Kind(StrEnum):
    """What a job is written as."""

    JOBSET = "jobset"
    TRAINJOB = "trainjob"


def _option(name: str, metavar: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=text)
    return option


def export(
    job: Annotated[Path, typer.Argument(help="A job file.", metavar="JOB")],
    to: Annotated[Kind, typer.Option("--to", help="JobSet, or Kubeflow Trainer's TrainJob.")],
    image: Annotated[
        str, _option("--image", "IMAGE", "With Python, torch, staves and the job's own files.")
    ],
    count: Annotated[
        str | None,
        _option("--count", "N|TYPE=N,...", "Devices; by default devices.min, of any of its types."),
    ] = None,
    per_pod: Annotated[
        int, typer.Option("--per-pod", metavar="N", min=1, help="Devices of one pod.")
    ] = 1,
    select: Annotated[
        list[str] | None,
        _option(
            "--select", "TYPE:LABEL=VALUE", "Nodes with devices of a type (nvidia.com/gpu.product)."
        ),
    ] = None,
    name: Annotated[
        str | None, _option("--name", "NAME", "Of the object; by default made from the job's.")
    ] = None,
    namespace: Annotated[str | None, _option("--namespace", "NAME", "Of the object.")] = None,
    queue: Annotated[str | None, _option("--queue", "NAME", "Kueue's local queue.")] = None,
    priority_class: Annotated[
        str | None, _option("--priority-class", "NAME", "Kueue's workload priority class.")
    ] = None,
    service_account: Annotated[
        str | None, _option("--service-account", "NAME", "Of the pods.")
    ] = None,
    pull_secret: Annotated[
        str | None, _option("--pull-secret", "NAME", "The Secret that the image is pulled with.")
    ] = None,
    secret: Annotated[
        str | None,
        _option("--secret", "NAME", "The Secret that holds the variables of the job's pass_env."),
    ] = None,
    label: Annotated[
        list[str] | None, _option("--label", "KEY=VALUE", "A label of the object and its pods.")
    ] = None,
    checkpoints: Annotated[
        str | None,
        _option("--checkpoints", "CLAIM[:PATH]", "The volume claim that checkpoints are kept in."),
    ] = None,
    claim: Annotated[
        list[str] | None, _option("--claim", "CLAIM:PATH[:ro]", "A volume claim with data.")
    ] = None,
    workdir: Annotated[
        str | None, _option("--workdir", "PATH", "Where `run` starts; by default the image's.")
    ] = None,
    cpu: Annotated[str | None, _option("--cpu", "QUANTITY", "Of a pod, like 8 or 500m.")] = None,
    memory: Annotated[str | None, _option("--memory", "QUANTITY", "Of a pod, like 32Gi.")] = None,
    runtime: Annotated[
        str | None,
        _option(
            "--runtime", "[KIND/]NAME", "With trainjob: its runtime; by default torch-distributed."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a job as a manifest for Kubernetes: with Kueue's labels, never sent anywhere.

    NOT RUN ON A REAL CLUSTER: manifests are checked against a model of the published API only.
    The devices are a fixed number; torchrun starts the job in the pods. See docs/kubernetes.md.
    """
    if output is not None:
        check_file("--output", output, sources=(job,))
    if runtime is not None and to is not Kind.TRAINJOB:
        raise InputError("--runtime: is a TrainJob's", hint="add --to trainjob, or leave it out")
    from staves.cli import _export_options as given
    from staves.cli._exporting import (
        Exported,
        workload_of,
    )  # with its models, only for who needs it
    from staves.kubernetes import UNTRIED, Platform

    platform = Platform(
        image=image,
        per_pod=per_pod,
        workdir=None if workdir is None else given.absolute("--workdir", workdir),
        namespace=namespace,
        queue=queue,
        priority_class=priority_class,
        service_account=service_account,
        pull_secret=pull_secret,
        secret=secret,
        labels=given.labels(label or []),
        checkpoints=None if checkpoints is None else given.checkpoints(checkpoints),
        claims=tuple(given.claim(text) for text in claim or ()),
        cpu=cpu,
        memory=memory,
        selectors=given.selectors(select or []),
        runtime=given.runtime(runtime or "torch-distributed"),
    )
    exported = Exported(to.value, job, workload_of(job, count, name), platform)
    if output is not None:
        output.write_text(exported.text, encoding="utf-8")
    if as_json:
        print_json(exported.document)
        return
    if output is None:
        typer.echo(exported.text, nl=False)
    messages.print(f"staves: {UNTRIED[0].lower()}{UNTRIED[1:]}")
