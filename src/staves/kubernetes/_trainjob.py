"""A TrainJob of Kubeflow Trainer: a runtime of the platform's, and what is added to it."""

from __future__ import annotations

from typing import Literal

from staves.errors import InputError, quoted
from staves.kubernetes import _pod
from staves.kubernetes._checks import check, check_pods
from staves.kubernetes._models import Reference
from staves.kubernetes._trainjob_models import (
    ContainerPatch,
    JobSetSpecPatch,
    JobSetTemplatePatch,
    JobSpecPatch,
    JobTemplatePatch,
    PodSpecPatch,
    PodTemplatePatch,
    ReplicatedJobPatch,
    RuntimePatch,
    RuntimeRef,
    RuntimeSpecPatch,
    Trainer,
    TrainJob,
    TrainJobSpec,
)
from staves.kubernetes._workload import Group, Platform, Workload, pods_of

MANAGER = "staves/export"
"""Who the additions are by; a runtime's people may add their own under theirs."""


def trainjob(workload: Workload, platform: Platform) -> TrainJob:
    """Return the job as a TrainJob.

    Raises:
        InputError: as for `jobset`; or what a TrainJob cannot say: devices of several kinds, a
            working directory.
        pydantic.ValidationError: a cluster would refuse it for its size.
    """
    check(workload, platform)
    if len(workload.groups) > 1:
        raise InputError(
            "--count: the nodes of a TrainJob are all alike",
            hint="use --to jobset, or a number of devices of any type",
        )
    if platform.workdir is not None:
        raise InputError(
            "--workdir: a TrainJob has no place for it",
            hint="set WORKDIR in the image, or use --to jobset",
        )
    (group,) = workload.groups
    pods = pods_of(group, workload, platform)
    check_pods(workload, "node", 1, pods)
    return TrainJob(
        apiVersion="trainer.kubeflow.org/v1alpha1",
        kind="TrainJob",
        metadata=_pod.metadata(workload, platform),
        spec=TrainJobSpec(
            runtimeRef=_runtime(platform),
            trainer=Trainer(
                image=platform.image,
                command=_pod.command(workload),
                env=_pod.variables(workload, platform) or None,
                numNodes=pods,
                numProcPerNode=platform.per_pod,
                resourcesPerNode=_pod.resources(group, platform),
            ),
            runtimePatches=[_patch(group, workload, platform)],
        ),
    )


def _runtime(platform: Platform) -> RuntimeRef:
    kind, name = platform.runtime
    kinds: dict[str, Literal["ClusterTrainingRuntime", "TrainingRuntime"]] = {
        "ClusterTrainingRuntime": "ClusterTrainingRuntime",
        "TrainingRuntime": "TrainingRuntime",
    }
    if kind not in kinds:
        raise InputError(
            f"--runtime: {quoted(kind)} is no kind of runtime",
            hint="write NAME, or TrainingRuntime/NAME for one of the namespace",
        )
    return RuntimeRef(name=name, apiGroup="trainer.kubeflow.org", kind=kinds[kind])


def _patch(group: Group, workload: Workload, platform: Platform) -> RuntimePatch:
    volumes, mounts = _pod.volumes(platform)
    pull = platform.pull_secret
    spec = PodSpecPatch(
        serviceAccountName=platform.service_account,
        imagePullSecrets=None if pull is None else [Reference(name=pull)],
        terminationGracePeriodSeconds=_pod.grace(workload),
        affinity=_pod.affinity(group, platform),
        tolerations=_pod.tolerations(group),
        volumes=volumes,
        containers=[ContainerPatch(name="node", volumeMounts=mounts)],
    )
    job = JobTemplatePatch(spec=JobSpecPatch(template=PodTemplatePatch(spec=spec)))
    patched = JobSetSpecPatch(replicatedJobs=[ReplicatedJobPatch(name="node", template=job)])
    return RuntimePatch(
        manager=MANAGER,
        trainingRuntimeSpec=RuntimeSpecPatch(template=JobSetTemplatePatch(spec=patched)),
    )
