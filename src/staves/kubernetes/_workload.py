"""What is to be written: what a job needs, and where its platform wants it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from staves.errors import InputError
from staves.kubernetes._devices import Selectors


@dataclass(frozen=True, slots=True)
class Group:
    """Devices of one kind, and how many of them.

    Args:
        name: of the Jobs that they become.
        types: a device of any of these types is one of the kind; none: of any type.
        count: devices.
    """

    name: str
    types: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Workload:
    """A job, as far as a manifest can hold it.

    Args:
        name: of the object in the cluster.
        run: a shell command line.
        groups: its devices; ranks go in this order.
        minimum: devices below which it cannot run, as its file says.
        maximum: the most that it can use; None: as many as there are.
        once: `run` is started once, with all devices, instead of once for each.
        priority: 0 to 100, as its file says.
        grace: seconds between the request to end and the end.
        retries: how often all of it starts again when a part has failed.
        env: variables with their values.
        secrets: names of variables whose values are not to be shown.
        checkpoint_every: seconds between two checkpoints; None: the trainer's default.
        places: fields of its file that name places on the machine that submits.
        unsaid: fields of its file that a manifest has no place for.
    """

    name: str
    run: str
    groups: tuple[Group, ...]
    minimum: int = 1
    maximum: int | None = None
    once: bool = False
    priority: int = 50
    grace: int = 30
    retries: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    checkpoint_every: float | None = None
    places: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """How many devices it is given."""
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True)
class Claim:
    """A persistent volume claim that is there already, and where it is seen."""

    name: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Platform:
    """What the job's file does not know: the cluster's names.

    Args:
        image: with Python, torch, staves, and the job's own files.
        per_pod: devices of one pod.
        workdir: where in the image `run` starts; None: where the image says.
        namespace: None: that of who applies the manifest.
        queue: Kueue's local queue; None: Kueue is not asked.
        priority_class: Kueue's workload priority class.
        service_account: None: the namespace's default.
        pull_secret: the Secret with which the image is pulled.
        secret: the Secret that holds the variables of `Workload.secrets`.
        labels: further ones, for the object and its pods.
        checkpoints: where checkpoints are kept; None: nowhere.
        claims: further volumes.
        cpu: of a pod, as Kubernetes writes quantities; None: not said.
        memory: likewise; the limit as well as the request.
        selectors: the cluster's own node labels of device types.
        runtime: the TrainJob's runtime, by kind and name.
    """

    image: str
    per_pod: int = 1
    workdir: str | None = None
    namespace: str | None = None
    queue: str | None = None
    priority_class: str | None = None
    service_account: str | None = None
    pull_secret: str | None = None
    secret: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    checkpoints: Claim | None = None
    claims: tuple[Claim, ...] = ()
    cpu: str | None = None
    memory: str | None = None
    selectors: Selectors = field(default_factory=dict)
    runtime: tuple[str, str] = ("ClusterTrainingRuntime", "torch-distributed")


def object_name(name: str) -> str:
    """Return a name as one in a cluster: lower case, dashes, a letter first."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return slug if slug[:1].isalpha() else f"job-{slug}".rstrip("-")


def pods_of(group: Group, workload: Workload, platform: Platform) -> int:
    """Return the number of pods that hold the devices of a group.

    Raises:
        InputError: they do not fill whole pods, or the job runs once and there would be several.
    """
    per_pod = platform.per_pod
    if group.count % per_pod:
        raise InputError(
            f"--per-pod: {group.count} devices ({group.name}) do not fill pods of {per_pod}",
            hint=f"use a count that {per_pod} divides, or --per-pod 1",
        )
    if workload.once and workload.devices > per_pod:
        raise InputError(
            f"launch: once runs in one pod, and {workload.devices} devices are more than one",
            hint=f"put them into it: --per-pod {workload.devices}"
            if len(workload.groups) == 1
            else "use devices of one type",
        )
    return group.count // per_pod
