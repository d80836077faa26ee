from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from staves.cli import run_command
from staves.kubernetes import JobSet, TrainJob

ROOT = Path(__file__).parents[2]
JOBS = sorted(
    path
    for path in (ROOT / "examples").rglob("*.yaml")
    if "run" in yaml.safe_load(path.read_text())
)
MODELS: dict[str, type[JobSet] | type[TrainJob]] = {"jobset": JobSet, "trainjob": TrainJob}
IMAGE = "registry.example/train:1"
SECRET = "4c0ffee-not-for-you"


def job_file(folder: Path, **fields: Any) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({"run": "python train.py", **fields}))
    return path


def export(job: Path, *options: object, to: str = "jobset") -> int:
    words = ["export", job, "--to", to, "--image", IMAGE, *options]
    return run_command([str(word) for word in words])


@pytest.mark.parametrize("to", MODELS)
@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.stem)
def test_every_example_is_exported(job: Path, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(job, to=to) == 0
    out, err = capsys.readouterr()
    manifest = yaml.safe_load(out)
    MODELS[to].model_validate(manifest)
    assert yaml.safe_load(job.read_text())["run"] in out
    assert "# Not run on a real cluster" in out
    assert "not run on a real cluster" in err


def test_there_are_examples() -> None:
    assert len(JOBS) >= 4


def test_all_options_of_a_jobset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_file(
        tmp_path,
        name="Big_Job.2",
        devices={"min": 2, "max": 8, "types": ["a100", "t4"]},
        preemption={"grace": "90s"},
        checkpoint={"dir": "out", "every": "10m"},
        env={"LEVEL": "5"},
        pass_env=["WANDB_API_KEY"],
        retries=7,
    )
    options = "--count a100=4,t4=2 --per-pod 2 --namespace team --queue fast --priority-class high"
    options += " --service-account trainer --pull-secret registry --secret wandb --label tier=gold"
    options += " --checkpoints saved --claim data:/data:ro --workdir /app --cpu 4 --memory 16Gi"
    options += " --select a100:gpu=big --select a100:gpu=huge"
    assert export(job, *options.split()) == 0
    manifest = yaml.safe_load(capsys.readouterr().out)
    JobSet.model_validate(manifest)
    assert manifest["metadata"] == {
        "name": "big-job-2",
        "namespace": "team",
        "labels": {
            "app.kubernetes.io/name": "big-job-2",
            "tier": "gold",
            "kueue.x-k8s.io/queue-name": "fast",
            "kueue.x-k8s.io/priority-class": "high",
        },
    }
    assert manifest["spec"]["failurePolicy"]["maxRestarts"] == 7
    first, second = manifest["spec"]["replicatedJobs"]
    assert (first["name"], first["replicas"]) == ("a100", 2)
    assert (second["name"], second["replicas"]) == ("t4", 1)
    pod = first["template"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "trainer"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["terminationGracePeriodSeconds"] == 90
    assert "'gpu', 'operator': 'In', 'values': ['big', 'huge']" in str(pod["affinity"])
    (container,) = pod["containers"]
    assert container["workingDir"] == "/app"
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "16Gi"},
        "limits": {"nvidia.com/gpu": "2", "memory": "16Gi"},
    }
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["STAVES_CHECKPOINT"] == "/checkpoints/big-job-2"
    assert env["STAVES_CHECKPOINT_EVERY"] == "600s"
    assert env["LEVEL"] == "5"
    claims = {
        each["persistentVolumeClaim"]["claimName"]: each["persistentVolumeClaim"].get("readOnly")
        for each in pod["volumes"]
        if "persistentVolumeClaim" in each
    }
    assert claims == {"saved": None, "data": True}


def test_a_trainjob_names_its_runtime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_file(tmp_path, devices={"min": 4, "types": ["a100", "t4"]})
    assert export(job, "--runtime", "TrainingRuntime/ours", "--queue", "fast", to="trainjob") == 0
    manifest = yaml.safe_load(capsys.readouterr().out)
    assert manifest["spec"]["runtimeRef"] == {
        "name": "ours",
        "apiGroup": "trainer.kubeflow.org",
        "kind": "TrainingRuntime",
    }
    assert manifest["spec"]["trainer"]["numNodes"] == 4
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "fast"
    assert "NVIDIA-A100-SXM4-40GB" in str(manifest)
    assert "Tesla-T4" in str(manifest)


@pytest.mark.parametrize("to", MODELS)
def test_no_secret_is_written(
    to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    job = job_file(tmp_path, pass_env=["API_KEY"])
    for options in ([], ["--secret", "keys"], ["--secret", "keys", "--json"], ["--secret", "No"]):
        export(job, *options, to=to)
        assert SECRET not in "".join(capsys.readouterr())


def test_a_variable_to_copy_need_not_be_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    assert export(job_file(tmp_path, pass_env=["API_KEY"]), "--secret", "keys") == 0
    assert "key: API_KEY" in capsys.readouterr().out


def test_a_document_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "manifest.yaml"
    assert export(job_file(tmp_path), "--json", "-o", file) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["run_on_a_cluster"] is False
    assert told["manifest"] == yaml.safe_load(file.read_text())
    assert f"# {told['notes'][0]}" in file.read_text().splitlines()
    assert err == ""


def test_a_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "manifest.yaml"
    assert export(job_file(tmp_path), "--output", file) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "not run on a real cluster" in err
    JobSet.model_validate(yaml.safe_load(file.read_text()))


def test_help_says_what_was_not_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["export", "--help"]) == 0
    assert "NOT RUN ON A REAL CLUSTER" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({"devices": {"mim": 1}}, "", "devices.mim"),
        ({"env": {f"V{n}": "" for n in range(129)}}, "--to trainjob", "refuse Trainer.env"),
        ({}, "--image a:b:c?", None),
        ({}, "--image=", "--image: Kubernetes takes no ''"),
        ({}, "--name Upper", "--name: Kubernetes takes no 'Upper'"),
        ({"name": "x" * 64}, "", "--name: Kubernetes takes no"),
        ({"name": "x" * 50}, "", "is too long"),
        ({}, "--namespace No", "--namespace: Kubernetes takes no 'No'"),
        ({}, "--queue No~", "--queue: Kubernetes takes no 'No~'"),
        ({}, "--priority-class high", "add --queue NAME"),
        ({}, "--service-account No", "--service-account: Kubernetes takes no"),
        ({}, "--label x", "write KEY=VALUE"),
        ({}, "--label x=1 --label x=2", "stands twice"),
        ({}, "--claim data", "write CLAIM:PATH"),
        ({}, "--claim data:data", "is not absolute"),
        ({}, "--checkpoints saved:", "write CLAIM, or CLAIM:PATH"),
        ({}, "--checkpoints a:/x --claim b:/x", "--claim: two volumes are to be seen at '/x'"),
        ({}, "--claim a:/dev/shm/", "--claim: two volumes"),
        ({}, "--claim a_b:/x", "--claim: Kubernetes takes no 'a_b'"),
        ({}, "--select t4:a/b/c=x", "--select: Kubernetes takes no 'a/b/c'"),
        ({}, "--label a=b~", "--label: Kubernetes takes no 'b~'"),
        ({}, "--workdir app", "is not absolute"),
        ({}, "--cpu lots", "--cpu: Kubernetes takes no 'lots'"),
        ({}, "--memory 16GB", "--memory: Kubernetes takes no '16GB'"),
        ({}, "--queue r --label kueue.x-k8s.io/queue-name=q", "the cluster's own parts to set"),
        ({}, "--label jobset.sigs.k8s.io/jobset-name=z", "the cluster's own parts to set"),
        ({"devices": {"types": ["a100"]}}, "--select t4:x=y", "is not to have 't4'"),
        ({}, "--checkpoints c:/", "--checkpoints: a volume at / would hide the image"),
        ({}, "--claim c://", "--claim: a volume at / would hide the image"),
        ({}, "--cpu 0", "--cpu: '0' is nothing"),
        ({}, "--cpu 0m", "--cpu: '0m' is nothing"),
        ({}, "--memory 0.0Gi", "--memory: '0.0Gi' is nothing"),
        ({}, "--memory 5m", "--memory: '5m' are thousandths of a byte"),
        ({}, "--count 0", "write it like 4"),
        ({"devices": {"max": 2}}, "--count 3", "devices.max (2)"),
        ({"devices": {"types": ["a100"]}}, "--count a10=1", "did you mean 'a100'"),
        ({"devices": {"types": ["ours"]}}, "", "--select ours:nvidia.com/gpu.product=PRODUCT"),
        ({"devices": {"types": ["a100"]}}, "--select a100", "write TYPE:LABEL=VALUE"),
        ({}, "--count 3 --per-pod 2", "do not fill pods of 2"),
        ({}, "--per-pod 0", "--per-pod"),
        ({"launch": "once"}, "--count 2", "put them into it: --per-pod 2"),
        ({"pass_env": ["KEY"]}, "", "--secret NAME"),
        ({"env": {"PET_NNODES": "2"}}, "", "env: PET_NNODES tells torchrun"),
        ({"env": {"STAVES_CHECKPOINT": "x", "a b": "y"}}, "", "env: Kubernetes takes no 'a b'"),
        ({}, "--runtime ours", "add --to trainjob"),
        ({}, "--to pod", "'jobset', 'trainjob'"),
        ({}, "-o nowhere/x.yaml", "make it first"),
    ],
)
def test_wrong_use_is_one_line_with_a_hint(
    fields: dict[str, Any],
    options: str,
    message: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = export(job_file(tmp_path, **fields), *options.split())
    out, err = capsys.readouterr()
    if message is None:  # names of images are checked where they are pulled
        assert code == 0
        return
    assert code == 2
    assert out == ""
    assert err.startswith("staves: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--count a100=1,t4=1", "use --to jobset"),
        ("--workdir /app", "set WORKDIR in the image"),
        ("--runtime Runtime/x", "is no kind of runtime"),
        ("--runtime TrainingRuntime/", "--runtime: Kubernetes takes no ''"),
    ],
)
def test_what_a_trainjob_cannot_say(
    options: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(job_file(tmp_path), *options.split(), to="trainjob") == 2
    assert message in capsys.readouterr().err


def test_an_image_is_required(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["export", str(job_file(tmp_path)), "--to", "jobset"]) == 2
    assert "--image" in capsys.readouterr().err
