"""`staves plan JOB`: the best devices for a job, by whatever is known of its speed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from staves.cli import run_command
from staves.service import JobSpec, Store
from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split

LINES = {"a100": (0.004, 0.001), "t4": (0.008, 0.004), "v100": (0.004, 0.002)}
COUNTS = {"a100": 2, "t4": 2, "v100": 1}
KNOWLEDGE: dict[str, Any] = {
    "lines": {
        "type a100": [[0.004, 0.001, 0.0], [0.004, 0.002, 0.0]],
        "type v100": [[0.004, 0.002, 0.0], [0.004, 0.004, 0.0]],
    },
    "ready": [1.0],
    "seconds": [0.004],
    "world_size": 2,
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAVES_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def job_file(folder: Path, **fields: Any) -> str:
    path = folder / "train.yaml"
    document = {"run": "python train.py", "batch": {"reference": 40}, **fields}
    path.write_text(yaml.safe_dump({k: v for k, v in document.items() if v is not None}))
    return str(path)


def cluster_file(folder: Path, counts: Mapping[str, int] = COUNTS, *, emulated: bool = True) -> str:
    types = {
        name: {
            "emulate": {
                part: {"fixed": f"{fixed}s", "per_sample": f"{slope}s"}
                for part in ("forward", "backward")
            }
        }
        for name, (fixed, slope) in LINES.items()
    }
    document: dict[str, Any] = {"nodes": [{"devices": dict(counts)}]}
    if emulated:
        document["types"] = types
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run_command(["plan", *arguments, "--json"]) == 0, capsys.readouterr().err
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def rate(held: Mapping[str, int], batch: int) -> float:
    """Return samples a second of those emulated devices, 3 % less for each further one."""
    devices = tuple(
        Device(f"{name}-{i}", name, Line(*LINES[name]), Line(*LINES[name]))
        for name, count in held.items()
        for i in range(count)
    )
    model = StepTimeModel(devices, Communication((1.0,), (0.0,)))
    seconds = integer_split(model, batch).step_seconds
    return batch / seconds / (1 + 0.03 * (len(devices) - 1))


@pytest.mark.parametrize("fields", [{}, {"min": 2, "max": 4}, {"types": ["t4", "v100"]}])
def test_the_devices_are_the_best_of_all_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any]
) -> None:
    job = job_file(tmp_path, devices=fields)
    document = planned(capsys, job, "--cluster", cluster_file(tmp_path))
    names = fields.get("types", list(COUNTS))
    best: dict[int, float] = {}
    for row in itertools.product(*(range(COUNTS[name] + 1) for name in names)):
        if fields.get("min", 1) <= sum(row) <= fields.get("max", 5):
            value = rate(dict(zip(names, row, strict=True)), 40)
            best[sum(row)] = max(best.get(sum(row), 0.0), value)
    rates = [option["samples_per_second"] for option in document["options"]]
    assert rates == pytest.approx([best[size] for size in sorted(best)])
    assert document["samples_per_second"] == pytest.approx(max(best.values()))
    assert rate(document["devices"], 40) == pytest.approx(max(best.values()))
    assert sum(document["local_batches"]) == 40
    assert document["source"] == "the emulated types of the cluster file"
    assert document["emulated"]
    alone = max(rate({name: 1}, 40) for name in names)
    assert document["speed_up"] == pytest.approx(max(best.values()) / alone)


def test_a_job_that_mixes_nothing_has_one_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_file(tmp_path, devices={"mix": "forbid"})
    document = planned(capsys, job, "--cluster", cluster_file(tmp_path))
    assert all(len(option["devices"]) == 1 for option in document["options"])
    assert document["devices"] == {"a100": 2}


def submit(home: Path, name: str, knowledge: dict[str, Any] | None, batch: int = 40) -> str:
    spec = JobSpec(name, "python train.py", Path("/work"), Path("/usr/bin/python3"))
    with Store(home / "service") as store:
        job = store.submit(replace(spec), "abc", "ann", now=1.0)
        store.observe(job, progress={"batch": batch}, knowledge=knowledge)
        return job


def test_what_a_past_job_of_its_name_has_learned_goes_before_declarations(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(home, "other", KNOWLEDGE)
    number = submit(home, "train", KNOWLEDGE, batch=44)
    submit(home, "train", None)
    job = job_file(tmp_path, batch=None)
    cluster = cluster_file(tmp_path, {"a100": 1, "v100": 1}, emulated=False)
    document = planned(capsys, job, "--cluster", cluster)
    assert document["source"] == f"job {number}, an earlier one of this name"
    assert document["batch"] == 44
    assert not document["emulated"]
    assert document["devices"] == {"a100": 1, "v100": 1}
    assert document["communication_known"]
    lines = [(Line(0.004, 0.001 * k), Line(0.004, 0.002 * k)) for k in (1, 2)]
    model = StepTimeModel(
        tuple(Device(str(i), "x", *pair) for i, pair in enumerate(lines)),
        Communication((1.0,), (0.004,)),
    )
    split = integer_split(model, 44)
    assert document["local_batches"] == list(split.local_batches)
    assert document["step_seconds"] == pytest.approx(split.step_seconds)


def test_a_type_that_was_not_measured_is_scaled_and_that_is_said(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(home, "train", KNOWLEDGE)
    cluster = cluster_file(tmp_path, {"a100": 1, "t4": 1}, emulated=False)
    document = planned(capsys, job_file(tmp_path), "--cluster", cluster)
    assert document["scaled_types"] == ["t4"]
    assert run_command(["plan", job_file(tmp_path), "--cluster", cluster]) == 0
    assert "scaled by the types' known speeds: t4" in capsys.readouterr().out


def test_a_step_time_file_goes_before_all(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(home, "train", KNOWLEDGE)
    path = tmp_path / "s.json"
    line = {"fixed": 0.001, "per_sample": 0.001}
    device = {"name": "x", "type": "a100", "forward": line, "backward": line}
    path.write_text(
        json.dumps({"devices": [device], "communication": {"ready": [1], "seconds": [0]}})
    )
    cluster = cluster_file(tmp_path, {"a100": 1}, emulated=False)
    options = ("--cluster", cluster, "--steptime", str(path), "--batch", "10")
    document = planned(capsys, job_file(tmp_path), *options)
    assert document["source"] == f"the step-time file {path}"
    assert document["step_seconds"] == pytest.approx(0.022)


def test_people_see_the_split_and_what_more_devices_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_file(tmp_path)
    assert run_command(["plan", job_file(tmp_path), "--cluster", cluster]) == 0
    text = capsys.readouterr().out
    assert "EMULATED" in text
    assert "times as fast" in " ".join(text.split())
    assert "against one device" in text
    assert "2xa100+2xt4+1xv100" in text


@pytest.mark.parametrize(
    ("arguments", "fields", "expected"),
    [
        (["train.yaml"], {"devices": {"min": 9}}, "devices.min"),
        (["train.yaml"], {"devices": {"types": ["a1000"]}}, "unknown device type 'a1000'"),
        (["train.yaml"], {"batch": None}, "its batch is not known"),
        (["train.yaml"], {"more": 1}, "more"),
        (["train.yaml", "--batch", "0"], {}, "--batch must be from 1"),
        (["train.yaml", "--noise-scale", "9"], {}, "--noise-scale does not go with a job file"),
        (["train.yaml", "--steptime", "absent.json"], {}, "absent.json"),
        (["absent.yaml"], {}, "absent.yaml"),
        (["train.py"], {}, "train.py: is a script, not a job file (measure it: staves profile"),
    ],
)
def test_what_cannot_be_planned_ends_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    fields: dict[str, Any],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    job_file(tmp_path, **fields)
    cluster = cluster_file(tmp_path)
    assert run_command(["plan", *arguments, "--cluster", cluster, "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert expected in said.err


def test_where_nothing_is_known_the_hint_says_how_to_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_file(tmp_path, emulated=False)
    assert run_command(["plan", job_file(tmp_path), "--cluster", cluster]) == 2
    assert "staves profile" in capsys.readouterr().err
    assert run_command(["plan", "--cluster", cluster, "--batch", "3", "--steptime", "x"]) == 2
    assert "--cluster goes with a job file" in capsys.readouterr().err
