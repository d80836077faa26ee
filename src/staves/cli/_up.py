"""`staves up`: start the service."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from staves.cli._output import messages, print_json, warn
from staves.cli._quotas import Quotas, parse_quotas
from staves.cli._service import AsJson, service_packages
from staves.engines.local import staves_home
from staves.errors import InputError, quoted
from staves.hardware import read_cluster

if TYPE_CHECKING:
    from staves.service import ServiceFolder


def up(
    cluster: Annotated[
        Path | None,
        typer.Option(
            help="Cluster file; without it, the last one, or else what the engine finds. With ray"
            " or slurm it declares types and links; they tell which nodes there are.",
            metavar="FILE",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="What runs the jobs; without it, that of the last start with its options, or else"
            " local.",
            metavar="local|ray|slurm",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster: auto, or HOST:PORT of its head.", metavar="ADDRESS"),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(help="Of Slurm: where jobs are submitted.", metavar="NAME")
    ] = None,
    account: Annotated[
        str | None, typer.Option(help="Of Slurm: what they are charged to.", metavar="NAME")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Of each Slurm job, as sbatch --time.", metavar="D-HH:MM")
    ] = None,
    slurm_option: Annotated[
        list[str] | None,
        typer.Option(help="Any other option of sbatch: qos=high; may be repeated.", metavar="TEXT"),
    ] = None,
    engine_option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the engine; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="What decides who gets what.", metavar="NAME")
    ] = "heet",
    quota: Quotas = None,
    port: Annotated[int, typer.Option(help="On loopback; 0 for a free one.", min=0, max=65535)] = 0,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay attached: Ctrl-C ends the controller.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the service: scheduler and API, on loopback; return once it is well.

    Over a controller that has died it takes data and jobs over.
    """
    with service_packages():
        from staves.service import ServiceFolder, Settings, about
        from staves.service import up as start
    if cluster is not None:
        for warning in read_cluster(cluster).warnings:
            warn(warning)
        cluster = cluster.absolute()
    named = {"address": address, "partition": partition, "account": account}
    named |= {"time-limit": time_limit, "sbatch": shlex.join(slurm_option or []) or None}
    options = engine_options(engine_option or [], named)
    quotas = parse_quotas(quota)
    folder = ServiceFolder(staves_home())
    if engine is None:
        chosen, options = _last_engine(folder, options)
    else:
        chosen = engine
    if chosen != "local" and engine is None:
        messages.print(
            f"staves: the engine is that of the last start, {chosen} (--engine names another)"
        )
    settings = Settings(folder.home, port, cluster, chosen, policy, options=options, quotas=quotas)
    if cluster is None and folder.cluster_file.exists():
        messages.print("staves: the cluster is that of the last start (--cluster names another)")

    def ready(url: str, pid: int) -> None:
        if as_json:
            print_json(about(folder, url, pid))
        else:
            typer.echo(f"staves: the service is at {url} (process {pid})")

    if foreground:
        from staves.service import serve

        serve(settings, lambda url: ready(url, os.getpid()))
        messages.print("staves: the controller has ended; jobs that ran go on without it")
        return
    waiting = messages.status("starting the service")
    with waiting if messages.is_terminal else contextlib.nullcontext():
        told = start(settings)
    ready(told["url"], told["pid"])


def _last_engine(folder: ServiceFolder, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return engine and options as at the last start, but for options that are named.

    Jobs may run there: another engine, which nobody has asked for, would know nothing of them.
    """
    name, last = folder.engine() or ("local", {})
    return name, options or last


def engine_options(given: list[str], named: Mapping[str, str | None]) -> dict[str, str]:
    """Return an engine's options by name, those of `--engine-option` among them.

    Raises:
        InputError: one is malformed, or given twice.
    """
    options = {name: value for name, value in named.items() if value is not None}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError(f"--engine-option: {quoted(text)} is not NAME=VALUE")
        if name in options:
            raise InputError(f"--engine-option: {quoted(name)} is given twice")
        options[name] = value
    return options
