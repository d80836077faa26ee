from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.kubernetes import (
    Group,
    JobSet,
    Platform,
    TrainJob,
    Workload,
    document,
    jobset,
    notes,
    to_yaml,
    trainjob,
)
from tests.kubernetes.cluster import pods_of
from tests.kubernetes.workloads import IMAGE, TEXTS, platforms, variables, workloads

SECRETS = {"TOKEN": "of-the-cluster", "WANDB_API_KEY": "too"}
ONE = Workload("job", "python train.py", (Group("a100", ("a100",), 1),))


def loaded(text: str) -> Any:
    return yaml.safe_load(text)


@given(workloads(), platforms())
def test_a_jobset_is_read_again_as_it_was_written(workload: Workload, platform: Platform) -> None:
    made = jobset(workload, platform)
    written = loaded(to_yaml(made, notes(workload, platform, "jobset")))
    assert written == document(made)
    assert JobSet.model_validate(written) == made


@given(workloads(kinds=1), platforms())
def test_a_trainjob_is_read_again_as_it_was_written(workload: Workload, platform: Platform) -> None:
    made = trainjob(workload, platform)
    written = loaded(to_yaml(made, notes(workload, platform, "trainjob")))
    assert written == document(made)
    assert TrainJob.model_validate(written) == made


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(workloads(per_pod=n), platforms(per_pod=n))))
def test_every_device_has_one_rank_and_all_meet_at_the_first(
    both: tuple[Workload, Platform],
) -> None:
    workload, platform = both
    pods = pods_of(document(jobset(workload, platform)), SECRETS)
    assert len(pods) * platform.per_pod == sum(group.count for group in workload.groups)
    assert [int(pod.env["PET_NODE_RANK"]) for pod in pods] == list(range(len(pods)))
    for pod in pods:
        assert int(pod.env["PET_NNODES"]) == len(pods)
        assert int(pod.env["PET_NPROC_PER_NODE"]) == platform.per_pod
        assert pod.env["PET_MASTER_ADDR"] == pods[0].host


@given(workloads(), platforms())
def test_pods_run_what_the_job_file_says_with_its_variables(
    workload: Workload, platform: Platform
) -> None:
    for pod in pods_of(document(jobset(workload, platform)), SECRETS):
        assert pod.command[-3:] == ["/bin/sh", "-c", workload.run]
        assert {name: pod.env[name] for name in workload.env} == workload.env
        assert {name: pod.env[name] for name in workload.secrets} == {
            name: SECRETS[name] for name in workload.secrets
        }


@given(workloads(), platforms())
def test_kueue_finds_queue_and_class(workload: Workload, platform: Platform) -> None:
    labels = document(jobset(workload, platform))["metadata"]["labels"]
    assert labels.get("kueue.x-k8s.io/queue-name") == platform.queue
    assert labels.get("kueue.x-k8s.io/priority-class") == platform.priority_class


@given(workloads(), platforms())
def test_a_device_is_asked_for_on_nodes_that_have_its_type(
    workload: Workload, platform: Platform
) -> None:
    manifest = document(jobset(workload, platform))
    for job, group in zip(manifest["spec"]["replicatedJobs"], workload.groups, strict=True):
        pod = job["template"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == str(platform.per_pod)
        nodes = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = nodes["nodeSelectorTerms"]
        (condition,) = term["matchExpressions"]
        assert condition["key"] == "nvidia.com/gpu.product"
        assert all(product.count("-") for product in condition["values"])
        assert job["replicas"] * platform.per_pod == group.count


@given(TEXTS.filter(str.strip), st.dictionaries(st.just("VALUE"), TEXTS))
def test_comments_do_not_become_content(run: str, env: dict[str, str]) -> None:
    workload = Workload("job", run, ONE.groups, env=env, places=("x\ny: z",))
    made = jobset(workload, Platform(IMAGE))
    assert loaded(to_yaml(made, notes(workload, Platform(IMAGE), "jobset"))) == document(made)


def test_text_that_looks_like_a_number_or_a_truth_stays_text() -> None:
    values = ["1e3", "0o17", "010", "1_000", "1:30", "yes", "off", "null", "~", "", ".5", "-", "NO"]
    env = {f"V{place}": value for place, value in enumerate(values)}
    text = to_yaml(jobset(Workload("job", "x", ONE.groups, env=env), Platform(IMAGE)), ())
    for value in values:
        assert f'value: "{value}"' in text


def test_both_kinds_say_that_they_were_not_run() -> None:
    for kind in ("jobset", "trainjob"):
        assert "Not run on a real cluster" in notes(ONE, Platform(IMAGE), kind)[0]


def test_once_is_one_pod_without_torchrun() -> None:
    workload = Workload("job", "make all", (Group("a100", ("a100",), 4),), once=True)
    (pod,) = pods_of(document(jobset(workload, Platform(IMAGE, per_pod=4))), {})
    assert pod.command == ["/bin/sh", "-c", "make all"]
    assert pod.env == {}
    with pytest.raises(InputError, match="--per-pod 4"):
        jobset(workload, Platform(IMAGE))


def test_a_trainjob_brings_its_nodes_volumes_and_account_along() -> None:
    platform = Platform(IMAGE, per_pod=2, service_account="trainer", memory="8Gi")
    manifest = document(trainjob(Workload("job", "x", (Group("t4", ("t4",), 6),)), platform))
    trainer = manifest["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (3, 2)
    assert trainer["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": "2", "memory": "8Gi"}
    assert manifest["spec"]["runtimeRef"]["name"] == "torch-distributed"
    (patch,) = manifest["spec"]["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "trainer"
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }


@pytest.mark.parametrize(
    ("workload", "platform", "message"),
    [
        (Workload("job", "x", (Group("t4", ("t4",), 3),)), Platform(IMAGE, per_pod=2), "fill pods"),
        (Workload("job", "x", ONE.groups, secrets=("KEY",)), Platform(IMAGE), "--secret NAME"),
        (ONE, Platform(IMAGE, priority_class="high"), "--queue NAME"),
        (Workload("job", "x", (Group("own", ("own",), 1),)), Platform(IMAGE), "--select own:"),
        (
            Workload("job", "x", (Group("worker", ("t4", "own"), 1),)),
            Platform(IMAGE, selectors={"own": {"a": ("1",), "b": ("2",)}}),
            "different node labels",
        ),
        (
            Workload("job", "x", (Group("worker", ("t4", "mi300x"), 1),)),
            Platform(IMAGE),
            "not one resource",
        ),
        (
            Workload("job", "x", (Group("t4", ("t4",), 1), Group("cpu", ("local-cpu",), 1))),
            Platform(IMAGE),
            "cannot train together",
        ),
    ],
)
@pytest.mark.parametrize("build", [jobset, trainjob])
def test_what_does_not_go_together_is_refused(
    build: Any, workload: Workload, platform: Platform, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        build(workload, platform)
    assert message in str(refused.value)


def test_devices_of_the_clusters_own_labels() -> None:
    selectors = {"a100": {"cloud.google.com/gke-accelerator": ("nvidia-tesla-a100",)}}
    made = document(jobset(ONE, Platform(IMAGE, selectors=selectors)))
    assert "nvidia-tesla-a100" in str(made)
    assert "nvidia.com/gpu.product" not in str(made)


def test_a_cpu_is_asked_for_by_the_core() -> None:
    workload = Workload("job", "x", (Group("local-cpu", ("local-cpu",), 2),))
    (job,) = document(jobset(workload, Platform(IMAGE, per_pod=2)))["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert "affinity" not in pod
    assert "tolerations" not in pod


def test_a_secret_is_named_and_never_shown() -> None:
    made = jobset(Workload("job", "x", ONE.groups, secrets=("KEY",)), Platform(IMAGE, secret="s"))
    (job,) = document(made)["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    assert variables(container)["KEY"] == {
        "name": "KEY",
        "valueFrom": {"secretKeyRef": {"name": "s", "key": "KEY"}},
    }
