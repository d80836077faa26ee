"""The engines that `staves up` knows, by name, and what each is built of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from staves.documents import suggestion
from staves.engines._base import Engine
from staves.errors import InputError, quoted
from staves.hardware import Cluster, read_cluster, this_machine, to_document
from staves.service._folder import ServiceFolder

logger = logging.getLogger(__name__)

Builder = Callable[[Path, Cluster | None, Mapping[str, str]], Engine]
"""Makes an engine, of the home, what the cluster file says and the engine's own options."""


def build_engine(
    name: str,
    home: Path,
    cluster: Path | None,
    options: Mapping[str, str],
    *,
    keep: bool = True,
) -> Engine:
    """Return the engine of that name.

    Args:
        name: as `staves up --engine` has it.
        home: the folder of everything Staves keeps.
        cluster: the cluster file; None for the last one that there was.
        options: of that engine, by name.
        keep: whether the next start, and commands, find in the home what this one was built of.

    Raises:
        InputError: there is no such engine or option, the cluster file is malformed, or there are
            no devices.
        StavesError: the engine's cluster does not answer.
    """
    if name not in _ENGINES:
        raise InputError(
            f"--engine: {quoted(name)} is none", hint=f"engines: {', '.join(_ENGINES)}"
        )
    build, its_own = _ENGINES[name]
    for option in options:
        if option not in its_own:
            hint = suggestion(option, its_own) if its_own else "it has none"
            raise InputError(f"the engine {name} has no option {quoted(option)}", hint=hint)
    folder = ServiceFolder(home)
    if cluster is None and folder.cluster_file.exists():  # jobs may be left that run on it
        cluster = folder.cluster_file
    file = None if cluster is None else read_cluster(cluster)
    engine = build(home, file, options)
    if keep:
        folder.create()
        folder.keep_engine(name, options)
        if file is not None and cluster != folder.cluster_file:
            folder.keep_cluster(to_document(file))
    for warning in engine.cluster().warnings:
        logger.warning("%s", warning)
    return engine


def _local(home: Path, file: Cluster | None, options: Mapping[str, str]) -> Engine:
    from staves.engines.local import LocalEngine, local_ranks

    devices = file or this_machine()
    local_ranks(devices.devices())  # refuses devices that this machine does not have
    return LocalEngine(home, devices)


def _ray(home: Path, file: Cluster | None, options: Mapping[str, str]) -> Engine:
    from staves.engines.agents import AgentEngine
    from staves.engines.ray import RayNodes

    document = None if file is None else to_document(file)
    engine = AgentEngine(home, RayNodes(address=options.get("address", "auto"), cluster=document))
    if not engine.cluster().total:
        raise InputError(
            "no node of the Ray cluster has devices that Staves knows",
            hint="name resources as their types, and declare these in a cluster file",
        )
    return engine


def _slurm(home: Path, file: Cluster | None, options: Mapping[str, str]) -> Engine:
    from staves.engines.agents import AgentEngine
    from staves.engines.slurm import SlurmNodes, keywords

    document = None if file is None else to_document(file)
    nodes = SlurmNodes(folder=str(home / "slurm"), cluster=document, **keywords(options))
    engine = AgentEngine(home, nodes)
    if not engine.cluster().total:
        where = "the Slurm cluster"
        if partition := options.get("partition"):
            where = f"Slurm's partition {quoted(partition)}"
        raise InputError(
            f"no node of {where} that is up has GPUs that Slurm knows of",
            hint="`sinfo --Node --format='%N %T %G'` shows what it has; GPUs are gpu:TYPE:COUNT",
        )
    return engine


_ENGINES: Mapping[str, tuple[Builder, Collection[str]]] = {
    "local": (_local, ()),
    "ray": (_ray, ("address",)),
    "slurm": (
        _slurm,
        ("partition", "account", "time-limit", "sbatch", "holds", "pending-within", "notice"),
    ),
}
"""By name: what builds it, and its options."""
