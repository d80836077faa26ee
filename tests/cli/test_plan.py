from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from staves.cli import run_command
from staves.convergence import best_batch
from staves.steptime import read_model

A100: dict[str, Any] = {
    "name": "a100-0",
    "type": "a100",
    "forward": {"fixed": 0.010, "per_sample": 0.00020},
    "backward": {"fixed": 0.012, "per_sample": 0.00045},
    "min_batch": 0,
    "max_batch": 512,
}
T4: dict[str, Any] = {
    "name": "t4-0",
    "type": "t4",
    "forward": {"fixed": 0.2, "per_sample": 0.001},
    "backward": {"fixed": 0.012, "per_sample": 0.002},
    "max_batch": 100,
}
DOCUMENT = {
    "devices": [A100, T4],
    "communication": {"ready": [0.15, 0.6, 1.0], "seconds": [0.020, 0.020, 0.004]},
}


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(DOCUMENT))
    return str(path)


def plan(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run_command(["plan", *options, "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    document: dict[str, Any] = json.loads(output.out)
    return document


def test_plans_a_batch(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = plan(capsys, "--steptime", model, "--batch", "300")
    assert list(document) == [
        "batch",
        "step_seconds",
        "local_batches",
        "even",
        "bottleneck",
        "idle_share",
    ]
    assert document["batch"] == sum(document["local_batches"]) == 300
    assert document["even"]["local_batches"] == [200, 100]
    assert document["even"]["step_seconds"] == pytest.approx(0.2 + 0.1 + 0.012 + 0.2 + 0.004)
    times = read_model(model).device_seconds(document["local_batches"])
    assert document["step_seconds"] == times.max()
    assert document["idle_share"] == pytest.approx((1 - times / times.max()).tolist())
    assert document["bottleneck"] == ["compute", "communication"]


def test_leaves_devices_out(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = plan(capsys, "--steptime", model, "--batch", "100", "--allow-leave-out")
    assert document["left_out"] == ["t4-0"]
    assert document["local_batches"] == [100, 0]
    assert document["idle_share"] == [0.0, 1.0]
    assert document["even"]["local_batches"] == [50, 50]
    assert run_command(["plan", "--steptime", model, "--batch", "100", "--allow-leave-out"]) == 0
    assert "left out" in capsys.readouterr().out


def test_leaves_out_whom_minimums_rule_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(DOCUMENT | {"devices": [A100, T4 | {"min_batch": 50}]}))
    document = plan(capsys, "--steptime", str(path), "--batch", "30", "--allow-leave-out")
    assert document["even"]["local_batches"] == [30, 0]
    assert run_command(["plan", "--steptime", str(path), "--batch", "30"]) == 2


@pytest.mark.parametrize("more", [[], ["--allow-leave-out"]])
def test_chooses_the_batch(model: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--steptime", model, "--noise-scale", "900", "--reference", "32"]
    document = plan(capsys, *options, "--max-batch", "5000", *more)
    best = best_batch(read_model(model), 900, 32, 612, allow_leave_out=bool(more))
    assert document["goodput"] == best.goodput
    assert document["batch"] == best.batch
    assert document["local_batches"] == list(best.split.local_batches)


def test_prints_a_table(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["plan", "--steptime", model, "--batch", "300"]) == 0
    text = capsys.readouterr().out
    assert "a100-0" in text
    assert "an even split 516.0 ms: 2.10 times as fast" in " ".join(text.split())
    options = ["--noise-scale", "900", "--reference", "32", "--max-batch", "99"]
    assert run_command(["plan", "--steptime", model, *options]) == 0
    assert "Goodput" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--batch 0",
        "--batch -3",
        "--batch 1.5",
        "--batch nan",
        "--batch many",
        "--batch 613",
        "--batch 99999999999999999999",
        "--batch 5 --noise-scale 3",
        "--batch 5 --reference 3",
        "--batch 5 --max-batch 3",
        "--noise-scale 3",
        "--noise-scale 3 --reference 3",
        "--noise-scale 3 --max-batch 3",
        "--reference 3 --max-batch 5",
        "--noise-scale nan --reference 3 --max-batch 5",
        "--noise-scale inf --reference 3 --max-batch 5",
        "--noise-scale -1 --reference 3 --max-batch 5",
        "--noise-scale 3 --reference 0 --max-batch 5",
        "--noise-scale 3 --reference 6 --max-batch 5",
        "--noise-scale 3 --reference 613 --max-batch 5000",
        "--noise-scale 3 --reference 1.5 --max-batch 5",
        "--batch 5 --unknown",
    ],
)
def test_bad_options_end_in_one_line(
    model: str, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["plan", "--steptime", model, *options.split(), "--json"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("staves: ")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    "document",
    [
        {},
        DOCUMENT | {"more": 1},
        DOCUMENT | {"devices": []},
        DOCUMENT | {"devices": [A100, A100]},
        DOCUMENT | {"devices": [A100 | {"min_batch": 20}]},
        DOCUMENT | {"devices": [A100 | {"max_batch": -1}]},
        DOCUMENT | {"devices": [A100 | {"max_batch": 9}]},
        DOCUMENT | {"devices": [A100 | {"idle": float("inf")}]},
        DOCUMENT | {"devices": [A100 | {"forward": {"fixed": -1, "per_sample": 0}}]},
        DOCUMENT | {"devices": [A100 | {"forward": {"fixed": float("nan"), "per_sample": 0}}]},
        DOCUMENT | {"communication": {"ready": [1.0, 0.5], "seconds": [0, 0]}},
        DOCUMENT | {"communication": {"ready": [0.5], "seconds": [0]}},
    ],
)
def test_bad_files_end_in_one_line(
    document: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document))
    assert run_command(["plan", "--steptime", str(path), "--batch", "10"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("staves: ")
    assert output.err.count("\n") == 1


def test_an_absent_file_or_option_ends_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["plan", "--steptime", "/nowhere.json", "--batch", "1"]) == 2
    assert run_command(["plan", "--batch", "1"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--batch 0", "--batch must be from 1 to 2^53, but is 0 (raise it)"),
        (
            "--batch 9007199254740993",
            "--batch must be from 1 to 2^53, but is 9007199254740993 (lower",
        ),
        ("--batch 613", "--batch: batch 613 is above the sum of max_batch, 612 (lower the batch"),
        (
            "--noise-scale 3 --reference 613 --max-batch 700",
            "--reference, --max-batch: no batch to",
        ),
        (
            f"--noise-scale 3 --reference 1 --max-batch {2**60}",
            "--max-batch must be from 1 to 2^53",
        ),
    ],
)
def test_refusals_name_the_option(
    model: str, options: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["plan", "--steptime", model, *options.split()]) == 2
    assert capsys.readouterr().err.startswith(f"staves: {expected}")
