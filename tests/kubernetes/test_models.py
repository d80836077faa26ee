"""The models refuse what a cluster would: each case is a legal manifest with one thing wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from staves.kubernetes import (
    Claim,
    Group,
    JobSet,
    Platform,
    TrainJob,
    Workload,
    document,
    jobset,
    trainjob,
)
from tests.kubernetes.workloads import IMAGE

WORKLOAD = Workload("job", "x", (Group("a100", ("a100",), 2),), env={"A": "1", "B": "2"})
PLATFORM = Platform(IMAGE, checkpoints=Claim("saved", "/saved"), memory="1Gi", queue="team")
POD = "spec replicatedJobs 0 template spec template spec"


def changed(manifest: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy with another value at the path."""
    result = copy.deepcopy(manifest)
    at: Any = result
    *steps, last = (int(step) if step.isdigit() else step for step in path.split(" "))
    for step in steps:
        at = at[step]
    at[last] = value
    return result


JOBSET = document(jobset(WORKLOAD, PLATFORM))
TRAINJOB = document(trainjob(WORKLOAD, PLATFORM))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("apiVersion", "jobset.x-k8s.io/v1alpha1"),
        ("kind", "Job"),
        ("metadata name", "Job"),
        ("metadata name", "1job"),
        ("metadata name", "j" * 50),  # alone it would do, with what pods add it does not
        ("metadata namespace", "a.b"),
        ("metadata labels", {"a/b/c": "x"}),
        ("metadata labels", {"kueue.x-k8s.io/queue-name": "not a queue"}),
        ("metadata labels", {"key": "x" * 64}),
        ("metadata nothing", "x"),
        ("spec replicatedJobs", []),
        ("spec replicatedJobs", JOBSET["spec"]["replicatedJobs"] * 2),
        ("spec replicatedJobs 0 replicas", -1),
        ("spec replicatedJobs 0 replicas", "2"),
        ("spec replicatedJobs 0 replicas", True),
        ("spec replicatedJobs 0 name", "A100"),
        ("spec failurePolicy maxRestarts", -1),
        (f"{POD} restartPolicy", "Always"),
        (f"{POD} containers", []),
        (f"{POD} containers 0 image", ""),
        (f"{POD} containers 0 image", "a b"),
        (f"{POD} containers 0 command", "x"),
        (f"{POD} containers 0 env 0 name", "1A"),
        (f"{POD} containers 0 env 0 name", "PET_NODE_RANK"),  # twice
        (f"{POD} containers 0 env 0 value", 1),
        (f"{POD} containers 0 env 0 valueFrom", {"fieldRef": {"fieldPath": "metadata.name"}}),
        (f"{POD} containers 0 resources limits", {"nvidia.com/gpu": "0.5"}),
        (f"{POD} containers 0 resources limits", {"memory": "8 GB"}),
        (f"{POD} containers 0 volumeMounts 0 name", "nowhere"),
        (f"{POD} containers 0 volumeMounts 0 mountPath", "/saved"),  # twice
        (f"{POD} containers 0 volumeMounts 0 mountPath", "/a:b"),
        (f"{POD} volumes 0 emptyDir", None),
        (f"{POD} volumes 1 persistentVolumeClaim claimName", "No_Claim"),
        (f"{POD} terminationGracePeriodSeconds", -1),
        (f"{POD} tolerations 0 operator", "Equal"),
    ],
)
def test_a_jobset_that_a_cluster_would_refuse(path: str, value: object) -> None:
    JobSet.model_validate(JOBSET)
    with pytest.raises(ValidationError):
        JobSet.model_validate(changed(JOBSET, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("apiVersion", "trainer.kubeflow.org/v1"),
        ("metadata name", "j" * 60),
        ("spec runtimeRef name", ""),
        ("spec runtimeRef kind", "Runtime"),
        ("spec trainer image", "x" * 501),
        ("spec trainer numNodes", -1),
        ("spec trainer numProcPerNode", 0),
        ("spec trainer numProcPerNode", "auto"),
        ("spec trainer env 0 name", "PET_NNODES"),  # the trainer's own
        ("spec trainer env 0 name", "B"),  # twice
        ("spec trainer env", [{"name": f"V{n}", "value": ""} for n in range(129)]),
        ("spec trainer command", ["x"] * 129),
        ("spec runtimePatches 0 manager", "staves"),
        ("spec runtimePatches", TRAINJOB["spec"]["runtimePatches"] * 17),
        ("spec podTemplateOverrides", []),
    ],
)
def test_a_trainjob_that_a_cluster_would_refuse(path: str, value: object) -> None:
    TrainJob.model_validate(TRAINJOB)
    with pytest.raises(ValidationError):
        TrainJob.model_validate(changed(TRAINJOB, path, value))
