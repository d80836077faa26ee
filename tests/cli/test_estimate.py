from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from staves.cli import run_command

HEADER = "job,device_type,devices,nodes,throughput\n"
SPEEDS = {"k80": 1.0, "v100": 4.0}
OVERHEADS = (0.01, 0.05, 0.1, 0.2, 0.3)
CELLS = [(n, m) for n in (1, 2, 4, 8) for m in {1, n}]


def speed(kind: str, devices: int, nodes: int, overhead: float) -> float:
    """Return the throughput of a job that loses `overhead` for each doubling, twice across."""
    lost = overhead * math.log2(devices) * (2 if nodes > 1 else 1)
    return SPEEDS[kind] * devices * math.exp(-lost)


@pytest.fixture
def history(tmp_path: Path) -> str:
    path = tmp_path / "history.csv"
    rows = [
        f"job-{j},{kind},{devices},{nodes},{10**j * speed(kind, devices, nodes, overhead)}\n"
        for j, overhead in enumerate(OVERHEADS)
        for kind in SPEEDS
        for devices, nodes in CELLS
    ]
    path.write_text(HEADER + "".join(rows))
    return str(path)


def observed(tmp_path: Path, *rows: str) -> str:
    path = tmp_path / "observed.csv"
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return str(path)


def documented(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run_command(["estimate", *options, "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    document: dict[str, Any] = json.loads(output.out)
    return document


def test_answers_every_question_in_order(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overhead = 0.15
    rows = [f"new,k80,8,8,{speed('k80', 8, 8, overhead)}", f"new,k80,1,1,{speed('k80', 1, 1, 0)}"]
    asked = [("v100", 8, 8), ("v100", 1, 1), ("k80", 2, 1), ("v100", 8, 8)]
    rows += [f"new,{kind},{devices},{nodes}," for kind, devices, nodes in asked]
    file = observed(tmp_path, *rows, "fresh,k80,1,1,nan")
    document = documented(capsys, "--history", history, "--observed", file)
    predictions = document["predictions"]
    places = [tuple(one[key] for key in ("device_type", "devices", "nodes")) for one in predictions]
    assert places == [*asked, ("k80", 1, 1)]
    assert [one["job"] for one in predictions] == ["new"] * 4 + ["fresh"]
    for one in predictions[:4]:
        truth = speed(one["device_type"], one["devices"], one["nodes"], overhead)
        assert one["throughput"] == pytest.approx(truth, rel=0.1)
        assert one["low"] < truth < one["high"]
        assert one["low"] * one["high"] == pytest.approx(one["throughput"] ** 2)
        wide = math.exp(1.6448536269514722 * one["log_std"])
        assert one["high"] / one["throughput"] == pytest.approx(wide)
    assert predictions[0] == predictions[3]
    assert predictions[4]["log_std"] > 1  # nothing tells a job's unit


def test_names_one_of_the_empty_rows(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = observed(tmp_path, "new,k80,1,1,1.0", "new,v100,8,8,", "new,k80,2,1,", "b,k80,4,4,")
    document = documented(capsys, "--history", history, "--observed", file, "--next-probe")
    first, second = document["probes"]
    assert first["job"] == "new"
    assert (first["device_type"], first["devices"]) in {("v100", 8), ("k80", 2)}
    assert second == {"job": "b", "device_type": "k80", "devices": 4, "nodes": 4}
    options = ("--history", history, "--observed", file, "--next-probe", "--probe-cost", "1")
    dear = documented(capsys, *options)["probes"]
    assert [one.pop("stop") for one in dear] == [True, True]
    assert dear == [first, second]


def test_a_job_without_questions_is_probed_anywhere_it_did_not_fail(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = [
        f"new,{kind},{d},{m},0" for kind in SPEEDS for d, m in CELLS if (kind, d) != ("k80", 2)
    ]
    file = observed(tmp_path, "new,k80,2,1,1.9", *failing)
    document = documented(capsys, "--history", history, "--observed", file, "--next-probe")
    assert [(one["device_type"], one["devices"], one["nodes"]) for one in document["probes"]] == [
        ("k80", 2, 2)
    ]


def test_a_job_of_the_history_goes_by_what_it_did_there(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = observed(tmp_path, "job-1,v100,4,1,")
    document = documented(capsys, "--history", history, "--observed", file)
    (one,) = document["predictions"]
    assert one["throughput"] == pytest.approx(10 * speed("v100", 4, 1, 0.05), rel=0.02)
    (probe,) = documented(capsys, "--history", history, "--observed", file, "--next-probe")[
        "probes"
    ]
    assert probe["stop"]
    assert (probe["device_type"], probe["devices"]) == ("v100", 4)


def test_works_without_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = observed(tmp_path, "new,k80,1,1,1000", "new,v100,1,1,", "new,k80,4,1,")
    faster, more = documented(capsys, "--observed", file)["predictions"]
    assert 1500 < faster["throughput"] < 8000
    assert 1500 < more["throughput"] < 5000


def test_prints_for_people(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = observed(tmp_path, "new,k80,1,1,1.0", "new,v100,8,1,")
    assert run_command(["estimate", "--history", history, "--observed", file]) == 0
    text = capsys.readouterr().out
    assert "v100" in text
    assert "9 of 10" in text
    assert run_command(["estimate", "--history", history, "--observed", file, "--next-probe"]) == 0
    assert "new: 8xv100 on one node" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((), "no row is measured"),
        (("new,k80,2,3,1",), ":2: nodes: 3 nodes for 2 devices"),
        (("new,k80,0,1,1",), ":2: devices: 0 is below 1"),
        (("new,k80,1,1,-1",), ":2: throughput: -1 is below 0"),
        (("new,k80,1,1,fast",), ":2: throughput: 'fast' is no number"),
        (("new,k80,1,1,1", ",k80,1,1,"), ":3: job: is empty"),
        (("new,k80,1,1",), "4 cells, but 5 columns"),
    ],
)
def test_bad_rows_are_one_line(
    history: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rows: tuple[str, ...],
    told: str,
) -> None:
    file = observed(tmp_path, *rows)
    assert run_command(["estimate", "--history", history, "--observed", file, "--json"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert told in output.err
    assert output.err.count("\n") == 1


def test_bad_files_and_options_are_one_line(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = observed(tmp_path, "new,k80,1,1,")
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("name,time,application,num_replicas,batch_size\na,0,bert,1,12\n")
    for options, told in (
        (("--history", str(tmp_path / "none.csv"), "--observed", file), "no such file"),
        (("--history", history), "--observed"),
        (("--history", str(jobs), "--observed", file), "holds jobs, not throughputs"),
        (("--observed", file, "--probe-cost", "0.1"), "goes with --next-probe"),
        (("--observed", file, "--next-probe", "--probe-cost", "2"), "must be from 0 to 1"),
    ):
        assert run_command(["estimate", *options]) == 2
        output = capsys.readouterr()
        assert told in output.err
        assert output.err.count("\n") == 1
