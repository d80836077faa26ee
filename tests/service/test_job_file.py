from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.service._job_file import job_schema, read_job
from staves.service._spec import HIDDEN, JobSpec

PRODUCT = """
name: digits
run: python train.py --epochs 30
workdir: .
devices: {min: 1, max: 8, types: [a100, v100, t4], mix: allow}
batch: {reference: 128, max: 4096, scaling: goodput}
priority: 50
preemption: {guaranteed: 0, grace: 30s}
checkpoint: {dir: out/ckpt, every: 5m}
env: {OMP_NUM_THREADS: "1"}
"""


def write(folder: Path, text: str, name: str = "train.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refusal(folder: Path, text: str, **options: object) -> str:
    path = write(folder, text)
    with pytest.raises(InputError) as caught:
        read_job(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert caught.value.hint or "; write " in message
    return message.removeprefix(f"{path}: ")


def test_the_job_of_the_product_page(tmp_path: Path) -> None:
    assert read_job(write(tmp_path, PRODUCT)) == JobSpec(
        name="digits",
        run="python train.py --epochs 30",
        workdir=tmp_path,
        python=Path(sys.executable),
        minimum=1,
        maximum=8,
        types=("a100", "v100", "t4"),
        mix=True,
        reference=128,
        max_batch=4096,
        scaling="goodput",
        priority=50,
        guaranteed=0,
        grace=30.0,
        checkpoint=tmp_path / "out/ckpt",
        checkpoint_every=300.0,
        env={"OMP_NUM_THREADS": "1"},
    )


def test_the_documented_file_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/files.md").read_text()
    text = page.partition("## Job file")[2].partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "data/imagenet").mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    spec = read_job(write(tmp_path, text), environ={"WANDB_API_KEY": "x"})
    assert spec.outputs == (tmp_path / "results",)
    assert spec.python == tmp_path / ".venv/bin/python", "the link is kept"
    documented = set(re.findall(r"^(\w+):", text, re.MULTILINE))
    assert documented == job_schema()["properties"].keys()


def test_only_run_is_required(tmp_path: Path) -> None:
    spec = read_job(write(tmp_path, "run: true.sh\n"))
    assert spec == JobSpec("train", "true.sh", tmp_path, Path(sys.executable))
    assert spec.maximum is None
    assert spec.retries == 3
    assert spec.priority == 50


def test_a_deadline_counts_from_submission(tmp_path: Path) -> None:
    spec = read_job(write(tmp_path, "run: x\ndeadline: 2h\n"))
    assert spec.deadline == 7200.0
    assert JobSpec.from_document(spec.to_document()) == spec
    older = {key: value for key, value in spec.to_document().items() if key != "deadline"}
    assert JobSpec.from_document(older).deadline is None
    assert "deadline: must be above zero" in refusal(tmp_path, "run: x\ndeadline: 0s\n")


def test_a_tenant_is_any_name_on_one_line(tmp_path: Path) -> None:
    spec = read_job(write(tmp_path, "run: x\ntenant: vision lab\n"))
    assert spec.tenant == "vision lab"
    assert JobSpec.from_document(spec.to_document()) == spec
    older = {key: value for key, value in spec.to_document().items() if key != "tenant"}
    assert JobSpec.from_document(older).tenant is None
    for wrong in ('""', '"a\\nb"', "x" * 65):
        assert "tenant" in refusal(tmp_path, f"run: x\ntenant: {wrong}\n")


def test_paths_are_taken_from_workdir(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "big").mkdir()
    spec = read_job(
        write(
            tmp_path,
            "run: x\nworkdir: code\ndata: [../big]\noutputs: [out]\ncheckpoint: {dir: ckpt}\n",
        )
    )
    assert spec.workdir == tmp_path / "code"
    assert spec.data == (tmp_path / "big",)
    assert spec.outputs == (tmp_path / "code/out",)
    assert spec.checkpoint == tmp_path / "code/ckpt"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("my job.yaml", "my-job"),
        ("7.yaml", "job-7"),
        (".yaml", "yaml"),
        ("-.yaml", "job"),
        ("a.b.yml", "a.b"),
    ],
)
def test_the_default_name_is_a_name(tmp_path: Path, file: str, expected: str) -> None:
    assert read_job(write(tmp_path, "run: x", file)).name == expected


def test_variables_are_copied_from_the_submitter_and_never_shown(tmp_path: Path) -> None:
    path = write(tmp_path, "run: x\npass_env: [TOKEN]\n")
    spec = read_job(path, environ={"TOKEN": "s3cret", "OTHER": "x"})
    assert spec.passed_env == {"TOKEN": "s3cret"}
    assert "s3cret" not in repr(spec)
    assert "s3cret" not in json.dumps(spec.public_document())
    assert spec.public_document()["passed_env"] == {"TOKEN": HIDDEN}
    assert JobSpec.from_document(spec.to_document()) == spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\n", "run: is missing"),
        ("run: ''\n", "run: must not be empty"),
        ("run: ' '\n", "run: must be a shell command line"),
        ("run: x\nrunn: y\n", "runn: unknown key (did you mean 'run'?)"),
        ("run: x\nname: a b\n", "name: 'a b' is not a name"),
        ("run: x\nname: '12'\n", "name: '12' looks like a job's id"),
        ("run: x\ndevices: {min: 0}\n", "devices.min: must be at least 1"),
        ("run: x\ndevices: {min: 4, max: 2}\n", "devices.max: 2 is below devices.min (4)"),
        ("run: x\ndevices: {types: []}\n", "devices.types: must name one type or more"),
        ("run: x\ndevices: {types: [t4, t4]}\n", "devices.types: must name one type or more"),
        ("run: x\ndevices: {mix: never}\n", "devices.mix: must be 'allow' or 'forbid'"),
        ("run: x\nbatch: {max: 3}\n", "batch.reference: is missing"),
        ("run: x\nbatch: {reference: 4, max: 3}\n", "batch.max: 3 is below batch.reference (4)"),
        ("run: x\nbatch: {reference: 4, max: 8, scaling: fixed}\n", "batch.max: a batch of"),
        ("run: x\npriority: 101\n", "priority: must be at most 100"),
        ("run: x\npriority: -1\n", "priority: must be at least 0"),
        ("run: x\npriority: '5'\n", "priority: must be a whole number"),
        ("run: x\ndevices: {max: 2}\npreemption: {guaranteed: 3}\n", "preemption.guaranteed: 3 is"),
        ("run: x\npreemption: {grace: 30}\n", "preemption.grace: 30 is not a quantity"),
        ("run: x\npreemption: {grace: 0s}\n", "preemption.grace: must be above zero"),
        ("run: x\ncheckpoint: {every: 0}\n", "checkpoint.every: must be above zero"),
        ("run: x\nenv: {A: 1}\n", "env.A: must be text"),
        ("run: x\nenv: {'A=B': ''}\n", "env: 'A=B' is no environment variable"),
        ("run: x\npass_env: [NOT_SET]\n", "pass_env[0]: 'NOT_SET' is not set here"),
        ("run: x\nenv: {SET: a}\npass_env: [SET]\n", "pass_env: 'SET' stands in env, too"),
        ("run: x\nworkdir: nowhere\n", "workdir: "),
        ("run: x\nworkdir: ~nobody-of-that-name\n", "workdir: "),
        ('run: x\nworkdir: "a\\0b"\n', "workdir: "),
        ("run: x\ndata: [nowhere]\n", "data[0]: "),
        ("run: x\ndata: [.]\n", "data[0]: is workdir itself"),
        ("run: x\noutputs: [a, ../there]\nworkdir: ../there\n", "outputs[1]: is workdir itself"),
        ("run: x\noutputs: [train.yaml]\n", "outputs[0]: "),
        ("run: x\ncheckpoint: {dir: .}\n", "checkpoint.dir: is workdir itself"),
        ("run: x\ncheckpoint: {dir: train.yaml/in}\n", "checkpoint.dir: "),
        ("run: x\npython: nowhere\n", "python: "),
        ("run: x\nlaunch: twice\n", "launch: must be 'ranks' or 'once'"),
        ("run: x\nretries: 101\n", "retries: must be at most 100"),
        ("run: x\nsnapshot: {max: 5}\n", "snapshot.max: 5 is not a quantity"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    there = tmp_path / "there"
    there.mkdir()
    assert refusal(there, text, environ={"SET": "x"}).startswith(expected)


def test_device_types_are_checked_where_the_cluster_is_known(tmp_path: Path) -> None:
    text = "run: x\ndevices: {types: [a100, tt4]}\n"
    said = refusal(tmp_path, text, types=("a100", "t4"))
    assert said == "devices.types[1]: unknown device type 'tt4' (did you mean 't4'?)"
    assert read_job(write(tmp_path, text)).types == ("a100", "tt4")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"minimum": 4}, "devices.min: 4 are wanted, the cluster has 3 that it may use"),
        ({"minimum": 2, "types": ("t4",)}, "devices.min: 2 are wanted, the cluster has 1"),
        ({"minimum": 3, "mix": False}, "devices.min: 3 are wanted, the cluster has 2 of one type"),
        ({"types": ("v100",)}, "devices.types[0]: unknown device type 'v100'"),
        ({"run": "x" * 131_072}, "run: has 131072 bytes"),
        ({"env": {"A": "x" * 131_070}}, "env.A: has 131072 bytes"),
        ({"run": "\ud800"}, "run: '\\ud800' is no Unicode text"),
        ({"workdir": Path("/a\0b")}, "workdir: '/a\\x00b' is no Unicode text"),
        ({"passed_env": {"A": "é" * 65_535}}, "pass_env.A: has 131072 bytes"),
    ],
)
def test_what_could_never_be_started_is_refused(change: dict[str, Any], expected: str) -> None:
    spec = JobSpec("train", "true", Path("/work"), Path(sys.executable), minimum=1)
    devices = {"a100": 2, "t4": 1}
    spec.check_startable(devices, "job.yaml")
    replace(spec, minimum=2, mix=False, run="x" * 131_071).check_startable(devices, "job.yaml")
    with pytest.raises(InputError) as caught:
        replace(spec, **change).check_startable(devices, "job.yaml")
    assert caught.value.message.startswith(f"job.yaml: {expected}")
    assert caught.value.hint


def test_the_schema_is_published_and_knows_every_key() -> None:
    schema = job_schema()
    assert schema["title"] == "Staves job file"
    assert schema["required"] == ["run"]
    assert set(re.findall(r"^(\w+):", PRODUCT, re.MULTILINE)) <= schema["properties"].keys()
    assert schema["additionalProperties"] is False


SPEC = JobSpec("j", "x", Path("/w"), Path("/usr/bin/python3"))
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0="), min_size=1)


@given(
    minimum=st.integers(1, 9),
    more=st.none() | st.integers(0, 9),
    types=st.none() | st.lists(texts, min_size=1, unique=True).map(tuple),
    mix=st.booleans(),
    grace=st.floats(0.001, 1e9),
    env=st.dictionaries(texts, texts),
    data=st.lists(texts.map(lambda name: Path("/") / name)).map(tuple),
    retries=st.integers(0, 100),
)
def test_documents_come_back_as_they_went(
    minimum: int,
    more: int | None,
    types: tuple[str, ...] | None,
    mix: bool,
    grace: float,
    env: dict[str, str],
    data: tuple[Path, ...],
    retries: int,
) -> None:
    spec = replace(
        SPEC,
        minimum=minimum,
        maximum=None if more is None else minimum + more,
        types=types,
        mix=mix,
        grace=grace,
        env=env,
        data=data,
        retries=retries,
    )
    document = json.loads(json.dumps(spec.to_document()))
    assert JobSpec.from_document(document) == spec


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"extra": 1}, "job: extra: "),
        ({"run": None}, "job: run: "),
        ({"minimum": 0}, "job: devices.min: must be at least 1"),
        ({"grace": float("nan")}, "job: grace: "),
        ({"workdir": "here"}, "job: workdir: 'here' must be absolute"),
    ],
)
def test_a_document_from_the_wire_is_checked(change: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        JobSpec.from_document({**SPEC.to_document(), **change})
    assert str(caught.value).startswith(expected)
    with pytest.raises(InputError, match="the document"):
        JobSpec.from_document([1])


def test_names_and_values_that_are_no_unicode_are_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, "run: x\npass_env: [X]\n", environ={"X": "\udcff"})
    assert message.startswith("pass_env.X: ")
    folder = tmp_path / "w\udcff"
    folder.mkdir()
    with pytest.raises(InputError, match="workdir: "):
        read_job(write(folder, "run: x"))
