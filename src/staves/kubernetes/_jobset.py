"""A JobSet: one replicated job for each kind of device, one Job of one pod for each of its pods.

So the JobSet's own global index of a Job is the pod's place among all pods, whatever their types,
and torchrun reads it as the rank of the node.
"""

from __future__ import annotations

from staves.kubernetes import _pod
from staves.kubernetes._checks import check, check_pods
from staves.kubernetes._models import (
    Container,
    EnvVar,
    FailurePolicy,
    FieldPath,
    JobSet,
    JobSetSpec,
    JobSpec,
    JobTemplate,
    Network,
    PodMeta,
    PodSpec,
    PodTemplate,
    Reference,
    ReplicatedJob,
    ValueFrom,
)
from staves.kubernetes._workload import Group, Platform, Workload, pods_of

RANK_FIELD = "metadata.annotations['jobset.sigs.k8s.io/job-global-index']"
PORT = 29500
"""Where rank 0 listens for the others: torchrun's own default."""


def jobset(workload: Workload, platform: Platform) -> JobSet:
    """Return the job as a JobSet.

    Raises:
        InputError: a cluster would refuse it, devices do not fill pods, a type's nodes are not
            known, or things do not go together.
        pydantic.ValidationError: a cluster would refuse it for its size.
    """
    check(workload, platform)
    pods = {group.name: pods_of(group, workload, platform) for group in workload.groups}
    for name, number in pods.items():
        check_pods(workload, name, number, 1)
    place = [] if workload.once else _place(workload, platform, sum(pods.values()))
    return JobSet(
        apiVersion="jobset.x-k8s.io/v1alpha2",
        kind="JobSet",
        metadata=_pod.metadata(workload, platform),
        spec=JobSetSpec(
            network=Network(enableDNSHostnames=True, publishNotReadyAddresses=True),
            failurePolicy=FailurePolicy(maxRestarts=workload.retries),
            replicatedJobs=[
                ReplicatedJob(
                    name=group.name,
                    replicas=pods[group.name],
                    template=JobTemplate(spec=_job(group, workload, platform, place)),
                )
                for group in workload.groups
            ],
        ),
    )


def _job(group: Group, workload: Workload, platform: Platform, place: list[EnvVar]) -> JobSpec:
    volumes, mounts = _pod.volumes(platform)
    container = Container(
        name="train",
        image=platform.image,
        command=_pod.command(workload),
        workingDir=platform.workdir,
        env=(place + _pod.variables(workload, platform)) or None,
        resources=_pod.resources(group, platform),
        volumeMounts=mounts,
    )
    pull = platform.pull_secret
    spec = PodSpec(
        restartPolicy="Never",
        serviceAccountName=platform.service_account,
        imagePullSecrets=None if pull is None else [Reference(name=pull)],
        terminationGracePeriodSeconds=_pod.grace(workload),
        affinity=_pod.affinity(group, platform),
        tolerations=_pod.tolerations(group),
        containers=[container],
        volumes=volumes,
    )
    return JobSpec(
        parallelism=1,
        completions=1,
        completionMode="Indexed",  # its pods have names that others can look up
        backoffLimit=0,  # a pod alone cannot come back: the whole set starts again
        template=PodTemplate(
            metadata=PodMeta(labels=_pod.pod_labels(workload, platform)), spec=spec
        ),
    )


def _place(workload: Workload, platform: Platform, pods: int) -> list[EnvVar]:
    """Return what tells torchrun its place, by the names of its own options (`--nnodes`, ...)."""
    first = f"{workload.name}-{workload.groups[0].name}-0-0.{workload.name}"
    return [
        EnvVar(name="PET_NNODES", value=str(pods)),
        EnvVar(name="PET_NPROC_PER_NODE", value=str(platform.per_pod)),
        EnvVar(name="PET_NODE_RANK", valueFrom=ValueFrom(fieldRef=FieldPath(fieldPath=RANK_FIELD))),
        EnvVar(name="PET_MASTER_ADDR", value=first),
        EnvVar(name="PET_MASTER_PORT", value=str(PORT)),
    ]
