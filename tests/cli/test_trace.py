"""`staves trace`, on a small file of every format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from staves.cli import run_command
from staves.hardware import read_cluster
from staves.simulation import Availability, NodeList, Workload, demand, read_file
from tests.simulation.samples import JSON_SAMPLES, SAMPLES

FILES = [(sample.file, sample.text) for sample in SAMPLES]
FILES += [(f"{name}.json", text) for name, text in JSON_SAMPLES.items()]


@pytest.fixture(params=FILES, ids=lambda file: str(file[0]))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name, text = request.param
    path: Path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def shown(capsys: pytest.CaptureFixture[str], file: Path) -> dict[str, Any]:
    assert run_command(["trace", "show", str(file), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_every_format_is_shown_and_drawn(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = shown(capsys, file)
    found = read_file(file)
    assert (document["format"], document["holds"]) == (found.format.name, found.format.holds)
    for trouble in document["dropped"]:
        assert trouble["lines"] > 0
    picture = file.with_suffix(".png")
    assert run_command(["trace", "show", str(file), "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = capsys.readouterr()
    assert document["format"] in told.out
    assert str(picture) in told.err


def test_what_is_converted_is_the_same(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_file(file).contents
    out = file.with_suffix(".own.csv")
    code = run_command(["trace", "convert", str(file), "--output", str(out)])
    if isinstance(before, Availability):
        assert code == 2
        return
    assert code == 0
    if isinstance(before, NodeList):
        after = read_cluster(str(out))
        assert after.configuration == before.cluster.configuration
        assert [node.devices for node in after.nodes] == [n.devices for n in before.cluster.nodes]
        return
    again = read_file(out).contents
    if isinstance(before, Workload):
        assert isinstance(again, Workload)
        assert again.requests == before.requests
    else:
        assert again.cells == before.cells  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("command", "options", "problem"),
    [
        ("convert", ["--output", "nodir/x.csv"], "--output: nodir is not a folder"),
        ("convert", ["--output", "."], "--output: . is a folder"),
        ("convert", ["--output", "what.csv"], "--output: what.csv is what is read"),
        ("convert", ["--output", "link"], "--output: link is what is read"),
        ("convert", ["--output", "x", "--since-hours", "nan"], "--since-hours must be"),
        ("convert", ["--output", "x", "--since-hours", "-1"], "--since-hours must be"),
        ("convert", ["--output", "x", "--hours", "nan"], "--hours must be"),
        ("convert", ["--output", "x", "--hours", "0"], "--hours must be"),
        ("show", ["--plot", "nodir/a.png"], "--plot: nodir is not a folder"),
        ("show", ["--plot", "what.csv"], "--plot: what.csv is what is read"),
    ],
)
def test_wrong_options_are_told_before_the_file_is_read(
    command: str,
    options: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The file is of no format, which would be told where it was read first."""
    monkeypatch.chdir(tmp_path)
    Path("what.csv").write_text("colour,weight\nred,3\n")
    Path("link").symlink_to("what.csv")
    assert run_command(["trace", command, "what.csv", *options]) == 2
    told = capsys.readouterr().err
    assert problem in told
    assert told.count("\n") == 1
    assert Path("what.csv").read_text() == "colour,weight\nred,3\n"
    assert not Path("x").exists()


def test_people_get_round_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "philly.csv"
    rows = ["name,time,application,num_replicas,batch_size,seconds"]
    rows += [f"job-{n},{n * 86400 + 7},net-{min(n, 11)},2,1,{5400 + n / 7}" for n in range(13)]
    file.write_text("\n".join(rows))
    assert run_command(["trace", "show", str(file)]) == 0
    shown = dict(re.split(r"  +", line, maxsplit=1) for line in told(capsys) if "  " in line)
    assert shown["span"] == "12 days"
    assert shown["durations, p50"] == "90 min"
    assert shown["device hours"] == "39"
    assert shown["applications"].startswith("net-11: 2, net-0: 1, ")
    assert shown["applications"].endswith(", net-6: 1, and 4 more: 4")


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_an_unknown_file_is_one_error_that_lists_what_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "what.csv"
    file.write_text("colour,weight\nred,3\n")
    assert run_command(["trace", "show", str(file)]) == 2
    told = capsys.readouterr().err
    assert f"{file}:1: no known format has the columns 'colour, weight'" in told
    assert "Philly job list" in told
    assert told.count("\n") == 1


def test_a_part_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "philly.csv", tmp_path / "part.csv"
    lines = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    lines += [f"2017-10-09 {hour:02}:30:00,60,1,60,vc-{hour % 2}" for hour in range(10)]
    file.write_text("\n".join(lines))
    options = ["trace", "convert", str(file), "--output", str(out)]
    assert run_command([*options, "--since-hours", "2", "--hours", "5", "--tenant", "vc-0"]) == 0
    contents = read_file(out).contents
    assert isinstance(contents, Workload)
    assert [(r.time / 3600, r.tenant) for r in contents.requests] == [
        (0.0, "vc-0"),
        (2.0, "vc-0"),
        (4.0, "vc-0"),
    ]
    capsys.readouterr()
    for wrong in (["--tenant", "nobody"], ["--hours", "0"], ["--since-hours", "nan"]):
        assert run_command([*options, *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_demand_is_the_area_under_the_jobs(tmp_path: Path) -> None:
    """2 devices for 10 s, 4 for 5 s: whatever the stretches, 40 device-seconds in all."""
    file = tmp_path / "w.csv"
    file.write_text(
        "name,time,application,num_replicas,batch_size,seconds\na,0,x,2,1,10\nb,5,x,4,1,5\n"
    )
    contents = read_file(file).contents
    assert isinstance(contents, Workload)
    for buckets in (1, 2, 7):
        curve = demand(contents.requests, buckets)
        assert sum(curve["devices"]) * curve["stretch_seconds"] == pytest.approx(40, abs=0.05)
    assert demand(contents.requests, 2)["devices"] == [2.0, 6.0]


def test_availability_takes_devices_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, trace = tmp_path / "c.yaml", tmp_path / "a.json"
    cluster.write_text("nodes:\n  - {count: 2, devices: {t4: 4}}\n")
    trace.write_text('[{"Time": 0, "GPUs": 8}, {"Time": 600, "GPUs": 4}]')
    options = ["simulate", "--cluster", str(cluster), "--workload", "synthetic-6"]
    options += ["--policy", "srtf", "--json"]
    for more in ([], ["--availability", str(trace)]):
        assert run_command([*options, *more]) == 0
        told = capsys.readouterr()
        (run,) = json.loads(told.out)["runs"]
        assert run["summary"]["finished"] == 6
        spans = [s for job in run["jobs"] for s in job["spans"] if s["until"] > 601]
        late = {node for span in spans for node in span["nodes"]}
        assert late == ({"node-0"} if more else {"node-0", "node-1"})
    assert "nodes go away 1 times" in told.err
