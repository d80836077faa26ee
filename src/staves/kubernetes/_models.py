"""What Kubernetes takes, as far as we write it: strict models that refuse what a cluster would.

Written from the published schemas, with their bounds; nothing of them is copied.

* Pods, Jobs and metadata: the Kubernetes API reference (`core/v1`, `batch/v1`, `meta/v1`) and its
  rules for names (RFC 1123 and RFC 1035 labels) and label values.
* `pod_name_fits`, `JobSet`: kubernetes-sigs/jobset v0.12, `api/jobset/v1alpha2/jobset_types.go`,
  the resource definition made from it, and the webhook `pkg/webhooks/jobset_webhook.go`.

Fields bear their names in Kubernetes, so that errors give the path that `kubectl explain` knows.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_QUALIFIED = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

Dns1035 = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Dns1123 = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)
]
Subdomain = Annotated[str, StringConstraints(pattern=_SUBDOMAIN, min_length=1, max_length=253)]
QualifiedName = Annotated[str, StringConstraints(pattern=_QUALIFIED, max_length=317)]
LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE, max_length=63)]
Labels = dict[QualifiedName, LabelValue]
Quantity = Annotated[
    str,
    StringConstraints(
        pattern=r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"
    ),
]
Image = Annotated[str, StringConstraints(pattern=r"^[^\s]+$", max_length=500)]
VariableName = Annotated[str, StringConstraints(pattern=r"^[-._A-Za-z][-._A-Za-z0-9]*$")]
MountPath = Annotated[str, StringConstraints(pattern=r"^/[^:\x00]*$")]

POD_SUFFIX = "-abcde"
"""As long as what Kubernetes adds to the name of a pod."""


class Part(BaseModel):
    """A part of a manifest: no key that it does not know, no value that is not what it should be.

    Numbers and texts are not made of each other: a cluster does not do so either.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ObjectMeta(Part):
    """Name, namespace and labels of an object."""

    name: Dns1035
    namespace: Dns1123 | None = None
    labels: Labels | None = None
    annotations: dict[QualifiedName, str] | None = None


class PodMeta(Part):
    """Labels of the pods that are made from a template."""

    labels: Labels | None = None
    annotations: dict[QualifiedName, str] | None = None


class SecretKey(Part):
    """A key of a Secret: the place of a value, never the value."""

    name: Subdomain
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]


class FieldPath(Part):
    """A field of the pod itself."""

    fieldPath: str


class ValueFrom(Part):
    """Where a variable's value is taken from."""

    secretKeyRef: SecretKey | None = None
    fieldRef: FieldPath | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.secretKeyRef is None) == (self.fieldRef is None):
            raise ValueError("a value is taken from one place")
        return self


class EnvVar(Part):
    """An environment variable."""

    name: VariableName
    value: str | None = None
    valueFrom: ValueFrom | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.value is not None and self.valueFrom is not None:
            raise ValueError("a variable has value or valueFrom, not both")
        return self


class Resources(Part):
    """What a container asks for, and may use."""

    requests: dict[QualifiedName, Quantity] | None = None
    limits: dict[QualifiedName, Quantity] | None = None

    @model_validator(mode="after")
    def _extended(self) -> Self:
        for name, quantity in {**(self.requests or {}), **(self.limits or {})}.items():
            if "/" in name and not re.fullmatch(r"[0-9]+", quantity):
                raise ValueError(f"{name} is counted in whole numbers")
        return self


class VolumeMount(Part):
    """Where a volume is seen in a container."""

    name: Dns1123
    mountPath: MountPath
    readOnly: bool | None = None


class ClaimSource(Part):
    """A claim that is there already, in the same namespace."""

    claimName: Subdomain
    readOnly: bool | None = None


class EmptyDir(Part):
    """A folder that ends with its pod."""

    medium: Literal["", "Memory"] | None = None


class Volume(Part):
    """A volume of a pod."""

    name: Dns1123
    persistentVolumeClaim: ClaimSource | None = None
    emptyDir: EmptyDir | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.persistentVolumeClaim is None) == (self.emptyDir is None):
            raise ValueError("a volume has one source")
        return self


class Requirement(Part):
    """One condition on the labels of a node."""

    key: QualifiedName
    operator: Literal["In"]
    values: Annotated[list[LabelValue], Field(min_length=1)]


class NodeSelectorTerm(Part):
    """Conditions that hold together."""

    matchExpressions: Annotated[list[Requirement], Field(min_length=1)]


class NodeSelector(Part):
    """Terms of which one holds."""

    nodeSelectorTerms: Annotated[list[NodeSelectorTerm], Field(min_length=1)]


class NodeAffinity(Part):
    """Which nodes a pod may be on."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector


class Affinity(Part):
    """Which nodes a pod may be on."""

    nodeAffinity: NodeAffinity


class Toleration(Part):
    """A taint that does not keep the pod off a node."""

    key: QualifiedName
    operator: Literal["Exists"]
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Reference(Part):
    """The name of an object in the same namespace."""

    name: Subdomain


class Container(Part):
    """A container."""

    name: Dns1123
    image: Image
    command: list[str]
    workingDir: str | None = None
    env: list[EnvVar] | None = None
    resources: Resources | None = None
    volumeMounts: list[VolumeMount] | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct("env", [variable.name for variable in self.env or ()])
        distinct("volumeMounts", [mount.mountPath for mount in self.volumeMounts or ()])
        return self


class PodSpec(Part):
    """A pod, as a Job makes it."""

    restartPolicy: Literal["Never", "OnFailure"]  # a Job takes no other
    serviceAccountName: Subdomain | None = None
    imagePullSecrets: list[Reference] | None = None
    terminationGracePeriodSeconds: Annotated[int, Field(ge=0)] | None = None
    nodeSelector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    containers: Annotated[list[Container], Field(min_length=1)]
    volumes: list[Volume] | None = None

    @model_validator(mode="after")
    def _mounted(self) -> Self:
        volumes = [volume.name for volume in self.volumes or ()]
        distinct("volumes", volumes)
        distinct("containers", [container.name for container in self.containers])
        for container in self.containers:
            for mount in container.volumeMounts or ():
                if mount.name not in volumes:
                    raise ValueError(f"volumeMounts: there is no volume {mount.name}")
        return self


class PodTemplate(Part):
    """What a Job makes its pods from."""

    metadata: PodMeta | None = None
    spec: PodSpec


class JobSpec(Part):
    """A Job (`batch/v1`) of indexed pods."""

    parallelism: Annotated[int, Field(ge=0)]
    completions: Annotated[int, Field(ge=0)]
    completionMode: Literal["Indexed", "NonIndexed"]
    backoffLimit: Annotated[int, Field(ge=0)]
    template: PodTemplate


class JobTemplate(Part):
    """What a JobSet makes its Jobs from."""

    spec: JobSpec


class ReplicatedJob(Part):
    """Jobs from one template."""

    name: Dns1035
    replicas: Annotated[int, Field(ge=0, le=2**31 - 1)]
    template: JobTemplate


class FailurePolicy(Part):
    """How often the whole set starts again."""

    maxRestarts: Annotated[int, Field(ge=0, le=2**31 - 1)]


class Network(Part):
    """Names by which pods find each other."""

    enableDNSHostnames: bool
    publishNotReadyAddresses: bool | None = None


class JobSetSpec(Part):
    """The Jobs of the set, and what becomes of it when one fails."""

    network: Network | None = None
    failurePolicy: FailurePolicy | None = None
    replicatedJobs: Annotated[list[ReplicatedJob], Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct("replicatedJobs", [job.name for job in self.replicatedJobs])
        return self


class JobSet(Part):
    """`jobset.x-k8s.io/v1alpha2`."""

    apiVersion: Literal["jobset.x-k8s.io/v1alpha2"]
    kind: Literal["JobSet"]
    metadata: ObjectMeta
    spec: JobSetSpec

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        for job in self.spec.replicatedJobs:
            pod_name_fits(self.metadata.name, job.name, job.replicas, job.template.spec.completions)
        return self


def pod_name_fits(name: str, job: str, replicas: int, completions: int) -> None:
    """Refuse a name from which that of the last pod would be too long for a DNS label."""
    longest = f"{name}-{job}-{max(replicas, 1) - 1}-{max(completions, 1) - 1}{POD_SUFFIX}"
    if len(longest) > 63:
        raise ValueError(f"the name {name} is too long by {len(longest) - 63}: pods add to it")


def distinct(what: str, names: list[str]) -> None:
    """Refuse a list in which a name stands twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: {twice[0]} stands twice")
