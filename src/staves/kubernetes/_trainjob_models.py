"""A TrainJob of Kubeflow Trainer, as far as we write it.

Written from kubeflow/trainer v2.3, `pkg/apis/trainer/v1alpha1/trainjob_types.go` with its bounds,
and the checks of its admission webhook (`pkg/runtime/framework/plugins/torch` and `jobset`).
`runtimePatches` is there since v2.2.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from staves.kubernetes._models import (
    Affinity,
    EnvVar,
    Image,
    Labels,
    ObjectMeta,
    Part,
    Reference,
    Resources,
    Subdomain,
    Toleration,
    Volume,
    VolumeMount,
    distinct,
    pod_name_fits,
)

RESERVED = frozenset(
    ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
)
"""Variables that tell torchrun its place; the trainer sets them, and refuses them from others."""

Argument = Annotated[str, StringConstraints(max_length=2**20)]
Manager = Annotated[  # a path below a domain
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9._~]+$", max_length=253),
]


class RuntimeRef(Part):
    """The runtime that the platform's people keep: what a training pod is made from."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    apiGroup: Literal["trainer.kubeflow.org"]
    kind: Literal["ClusterTrainingRuntime", "TrainingRuntime"]


class Trainer(Part):
    """What runs on the nodes, all of them alike."""

    image: Image
    command: Annotated[list[Argument], Field(max_length=128)]
    env: Annotated[list[EnvVar], Field(max_length=128)] | None = None
    numNodes: Annotated[int, Field(ge=0, le=2**31 - 1)]
    numProcPerNode: Annotated[int, Field(ge=1, le=2**31 - 1)]
    resourcesPerNode: Resources | None = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        names = [variable.name for variable in self.env or ()]
        distinct("env", names)
        if taken := sorted(RESERVED.intersection(names)):
            raise ValueError(f"env: {taken[0]} is set by the trainer")
        return self


class ContainerPatch(Part):
    """Additions to a container of the runtime; its variables are the trainer's own matter."""

    name: Literal["node"]
    volumeMounts: Annotated[list[VolumeMount], Field(max_length=128)] | None = None


class PodSpecPatch(Part):
    """Additions to the pods of the runtime."""

    serviceAccountName: Subdomain | None = None
    imagePullSecrets: Annotated[list[Reference], Field(max_length=64)] | None = None
    terminationGracePeriodSeconds: Annotated[int, Field(ge=0)] | None = None
    nodeSelector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: Annotated[list[Toleration], Field(max_length=128)] | None = None
    volumes: Annotated[list[Volume], Field(max_length=128)] | None = None
    containers: Annotated[list[ContainerPatch], Field(max_length=64)] | None = None


class PodTemplatePatch(Part):
    """Additions to the pods of the runtime."""

    spec: PodSpecPatch


class JobSpecPatch(Part):
    """Additions to a Job of the runtime."""

    template: PodTemplatePatch


class JobTemplatePatch(Part):
    """Additions to a Job of the runtime."""

    spec: JobSpecPatch


class ReplicatedJobPatch(Part):
    """Additions to the Jobs of one name."""

    name: Literal["node"]
    template: JobTemplatePatch


class JobSetSpecPatch(Part):
    """Additions to the JobSet that the trainer makes."""

    replicatedJobs: Annotated[list[ReplicatedJobPatch], Field(max_length=100)]


class JobSetTemplatePatch(Part):
    """Additions to the JobSet that the trainer makes."""

    spec: JobSetSpecPatch


class RuntimeSpecPatch(Part):
    """Additions to the runtime."""

    template: JobSetTemplatePatch


class RuntimePatch(Part):
    """Additions to the runtime, under the name of who makes them."""

    manager: Manager
    trainingRuntimeSpec: RuntimeSpecPatch


class TrainJobSpec(Part):
    """A runtime, what it runs, and what is added to it."""

    runtimeRef: RuntimeRef
    trainer: Trainer
    runtimePatches: Annotated[list[RuntimePatch], Field(max_length=16)] | None = None


class TrainJob(Part):
    """`trainer.kubeflow.org/v1alpha1`."""

    apiVersion: Literal["trainer.kubeflow.org/v1alpha1"]
    kind: Literal["TrainJob"]
    metadata: ObjectMeta
    spec: TrainJobSpec

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        pod_name_fits(self.metadata.name, "node", 1, self.spec.trainer.numNodes)
        return self
