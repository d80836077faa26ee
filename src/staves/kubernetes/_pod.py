"""The parts of a pod that both kinds of manifest have: command, variables, resources, volumes."""

from __future__ import annotations

from staves.kubernetes._checks import SHARED_MEMORY_PATH
from staves.kubernetes._devices import node_labels, resource_for
from staves.kubernetes._models import (
    Affinity,
    ClaimSource,
    EmptyDir,
    EnvVar,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Requirement,
    Resources,
    SecretKey,
    Toleration,
    ValueFrom,
    Volume,
    VolumeMount,
)
from staves.kubernetes._workload import Group, Platform, Workload

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Kueue's labels, of its `pkg/controller/constants` (kubernetes-sigs/kueue)."""

NAME_LABEL = "app.kubernetes.io/name"
"""One of the labels that Kubernetes recommends."""

CHECKPOINTS, SHARED_MEMORY = "checkpoints", "shared-memory"


def metadata(workload: Workload, platform: Platform) -> ObjectMeta:
    """Return name, namespace and labels of the object."""
    labels = pod_labels(workload, platform)
    if platform.queue is not None:
        labels[QUEUE_LABEL] = platform.queue
    if platform.priority_class is not None:
        labels[PRIORITY_LABEL] = platform.priority_class
    return ObjectMeta(name=workload.name, namespace=platform.namespace, labels=labels)


def pod_labels(workload: Workload, platform: Platform) -> dict[str, str]:
    """Return the labels of the pods: those of the object, without Kueue's."""
    return {NAME_LABEL: workload.name, **platform.labels}


def command(workload: Workload) -> list[str]:
    """Return what a pod runs: torchrun, which starts `run` for each device; or `run` itself."""
    shell = ["/bin/sh", "-c", escaped(workload.run)]
    return shell if workload.once else ["torchrun", "--no-python", *shell]


def variables(workload: Workload, platform: Platform) -> list[EnvVar]:
    """Return the job's own variables; secret ones by where they are, never by value."""
    every = {}
    if (checkpoints := platform.checkpoints) is not None:
        every["STAVES_CHECKPOINT"] = f"{checkpoints.path.rstrip('/')}/{workload.name}"
        if workload.checkpoint_every is not None:
            every["STAVES_CHECKPOINT_EVERY"] = f"{workload.checkpoint_every:g}s"
    plain = [
        EnvVar(name=name, value=escaped(value)) for name, value in {**every, **workload.env}.items()
    ]
    if platform.secret is None:
        return plain
    return plain + [
        EnvVar(
            name=name,
            valueFrom=ValueFrom(secretKeyRef=SecretKey(name=platform.secret, key=name)),
        )
        for name in workload.secrets
    ]


def escaped(text: str) -> str:
    """Return `text` such that Kubernetes leaves it as it is.

    It replaces `$(NAME)` in commands and values by the variable, and `$$` by one dollar sign.
    """
    return text.replace("$", "$$")


def resources(group: Group, platform: Platform) -> Resources | None:
    """Return what a pod of the group asks for."""
    requests = {}
    resource, cpu = resource_for(group.types), platform.cpu
    if resource is None and cpu is None:
        cpu = str(platform.per_pod)  # one core is what a `local-cpu` device is at least
    if cpu is not None:
        requests["cpu"] = cpu
    limits = {} if resource is None else {resource: str(platform.per_pod)}
    if platform.memory is not None:
        requests["memory"] = limits["memory"] = platform.memory
    return Resources(requests=requests or None, limits=limits or None)


def affinity(group: Group, platform: Platform) -> Affinity | None:
    """Return on which nodes the group's pods may be; None for a group of any type."""
    labels = node_labels(group.types, platform.selectors)
    if not labels:
        return None
    term = NodeSelectorTerm(
        matchExpressions=[
            Requirement(key=key, operator="In", values=list(values))
            for key, values in labels.items()
        ]
    )
    nodes = NodeSelector(nodeSelectorTerms=[term])
    return Affinity(nodeAffinity=NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=nodes))


def grace(workload: Workload) -> int | None:
    """Return the seconds between SIGTERM and SIGKILL; None: Kubernetes' own 30.

    A TrainJob can say others since v2.3 of the trainer only.
    """
    return None if workload.grace == 30 else workload.grace


def tolerations(group: Group) -> list[Toleration] | None:
    """Return the taint that nodes with such devices often bear, to keep others off."""
    resource = resource_for(group.types)
    if resource is None:
        return None
    return [Toleration(key=resource, operator="Exists", effect="NoSchedule")]


def volumes(platform: Platform) -> tuple[list[Volume], list[VolumeMount]]:
    """Return volumes and where they are seen.

    The shared memory is for the workers of torch's loaders: a container has 64 MB of it by itself.
    """
    named = [(f"claim-{place}", claim) for place, claim in enumerate(platform.claims)]
    if platform.checkpoints is not None:
        named.insert(0, (CHECKPOINTS, platform.checkpoints))
    sources = [Volume(name=SHARED_MEMORY, emptyDir=EmptyDir(medium="Memory"))]
    mounts = [VolumeMount(name=SHARED_MEMORY, mountPath=SHARED_MEMORY_PATH)]
    for name, claim in named:
        read_only = True if claim.read_only else None
        source = ClaimSource(claimName=claim.name, readOnly=read_only)
        sources.append(Volume(name=name, persistentVolumeClaim=source))
        mounts.append(VolumeMount(name=name, mountPath=claim.path, readOnly=read_only))
    return sources, mounts
