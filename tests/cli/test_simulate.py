from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from staves.cli import run_command
from staves.scheduling import policies
from tests.simulation import small

CLUSTER = "nodes:\n  - {count: 2, devices: {t4: 4}}\n  - {devices: {a100: 8}}\n"


def simulate(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run_command(["simulate", *options, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def untimed(document: dict[str, Any]) -> dict[str, Any]:
    for run in document["runs"]:
        for name in ("decision_seconds", "wall_seconds", "cpu_seconds"):
            del run["summary"][name]
    return document


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "w.csv").write_text(small.WORKLOAD)
    folder = small.profile_folder(tmp_path)
    return [
        *("--cluster", str(tmp_path / "c.yaml")),
        *("--workload", str(tmp_path / "w.csv")),
        *("--profiles", str(folder)),
    ]


def test_the_document_is_the_one_that_is_promised(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "o.json"
    document = simulate(
        capsys, *files, "--policy", "fifo", "--policy", "heet", "--output", str(out)
    )
    assert json.loads(out.read_text()) == document
    assert [run["policy"] for run in document["runs"]] == ["fifo", "heet"]
    for run in document["runs"]:
        assert {"policy", "workload", "seed", "summary", "jobs"} <= run.keys()
        assert {
            "jobs",
            "finished",
            "average_jct_seconds",
            "p50_jct_seconds",
            "p99_jct_seconds",
            "makespan_seconds",
            "device_seconds",
            "restarts",
            "decision_seconds",
            "wall_seconds",
            "cpu_seconds",
        } <= run["summary"].keys()
        assert run["summary"]["decision_seconds"].keys() == {"p50", "p99", "max"}
        assert run["seed"] == 0
        assert run["summary"]["finished"] == run["summary"]["jobs"] == 2
        assert [job["id"] for job in run["jobs"]] == ["one", "two"]


def test_seeds_and_policies_side_by_side_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--cluster", "sia-64", "--workload", "synthetic-8", "--policy", "fifo"]
    options += [
        "--policy",
        "tiresias",
        "--seeds",
        "2",
        "--failure-hours",
        "3",
        "--repair-hours",
        ".1",
    ]
    one = untimed(simulate(capsys, *options))
    two = untimed(simulate(capsys, *options, "--processes", "2"))
    assert json.dumps(one) == json.dumps(two)
    assert [(r["policy"], r["seed"]) for r in one["runs"]] == [
        ("fifo", 0),
        ("fifo", 1),
        ("tiresias", 0),
        ("tiresias", 1),
    ]
    assert one["runs"][0]["jobs"] != one["runs"][1]["jobs"]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_long_work_tells_each_run_where_no_bar_can_be(
    processes: str,
    files: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = [*files, "--policy", "fifo", "--policy", "srtf", "--processes", processes]
    for quiet, lines in ((0.0, 2), (math.inf, 0)):
        monkeypatch.setattr("staves.cli._simulate._QUIET_SECONDS", quiet)
        assert run_command(["simulate", *options]) == 0
        told = capsys.readouterr().err.splitlines()
        assert len(told) == lines
    monkeypatch.setattr("staves.cli._simulate._QUIET_SECONDS", 0.0)
    assert run_command(["simulate", *options]) == 0
    told = capsys.readouterr().err.splitlines()
    assert {line.split(":")[1] for line in told} == {" fifo, seed 0", " srtf, seed 0"}
    assert told[-1].endswith("2 of 2 runs")


def test_a_quota_bounds_what_a_tenant_has_at_any_time(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [f"{tenant}-{n},{n},small,1,8,{tenant}" for n in range(3) for tenant in ("ann", "b=c")]
    path = tmp_path / "tenants.csv"
    path.write_text("\n".join(["name,time,application,num_replicas,batch_size,tenant", *rows]))
    options = [*files[:2], "--workload", str(path), *files[4:], "--policy", "heet"]

    def most(run: dict[str, Any], tenant: str) -> int:
        spans = [s for job in run["jobs"] if job["id"].startswith(tenant) for s in job["spans"]]
        had = [
            sum(
                sum(s["devices"].values()) for s in spans if s["since"] <= one["since"] < s["until"]
            )
            for one in spans
        ]
        return max(had)

    (free,) = simulate(capsys, *options)["runs"]
    assert most(free, "ann") > 2
    (run,) = simulate(capsys, *options, "--quota", "ann=2", "--quota", "b=c=5")["runs"]
    assert run["summary"]["finished"] == 6
    assert run["quotas"] == {"ann": 2, "b=c": 5}
    assert most(run, "ann") == 2
    assert most(run, "b=c") <= 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "heet", "--policy", "sia"], "the policy 'sia' does not honour quotas"),
        (["--policy", "heet"], "has no job of the tenant 'ann' (its jobs name no tenants)"),
        (["--policy", "heet", "--quota", "bob"], "--quota: 'bob' is not TENANT=N"),
        (["--policy", "heet", "--quota", "bob=-1"], "--quota: 'bob=-1' is not TENANT=N"),
        (["--policy", "heet", "--quota", "=1"], "--quota: '=1' is not TENANT=N"),
        (["--policy", "heet", "--quota", "bob=1000001"], "the quota 1000001 of the tenant 'bob'"),
        (["--policy", "heet", "--quota", f"bob={'9' * 5000}"], "too many devices"),
        (["--policy", "heet", "--quota", "ann=1"], "--quota: 'ann' has two"),
        (["--policy", "heet", "--decide-only"], "--quota goes with a workload"),
    ],
)
def test_quotas_that_mean_nothing_are_refused(
    options: list[str], said: str, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["simulate", *files, "--quota", "ann=1", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_people_get_a_table(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["simulate", *files, "--policy", "srtf"]) == 0
    output = capsys.readouterr()
    assert re.search(r"^srtf +0 +2/2 ", output.out, re.M)
    assert "alone, each on devices of one type" in output.out
    assert "…" not in output.out


def test_in_place_pauses_are_for_those_who_change_in_place(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*files[:2], "--workload", "synthetic-12", "--policy", "sia"]
    published = untimed(simulate(capsys, *options))
    assert untimed(simulate(capsys, *options, "--pauses", "own")) == published
    options[-1] = "heet"
    long, short = (
        untimed(simulate(capsys, *options, "--pauses", "own", "--in-place-seconds", seconds))
        for seconds in ("60", "1")
    )
    assert long != short


def test_a_decision_is_timed_and_dumped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dump = tmp_path / "d.json"
    document = simulate(
        capsys,
        *("--decide-only", "--jobs", "12", "--devices", "30", "--policy", "heet"),
        *("--dump", str(dump)),
    )
    assert document.keys() == {"decision_seconds", "value", "bound", "gap"}
    instance = json.loads(dump.read_text())
    assert instance["types"] == ["a100", "rtx2080ti", "t4"]
    assert sum(instance["capacity"]) == 30
    value, used = 0.0, [0, 0, 0]
    for job in instance["jobs"]:
        if job["chosen"] is not None:
            value += job["utility"][job["chosen"]]
            used = [a + b for a, b in zip(used, job["configurations"][job["chosen"]], strict=True)]
    assert all(a <= b for a, b in zip(used, instance["capacity"], strict=True))
    assert value == pytest.approx(document["value"])
    assert document["value"] <= document["bound"] * (1 + 1e-9)
    assert document["gap"] == pytest.approx(1 - document["value"] / document["bound"])


def test_policies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["policies", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["policies"]
    assert {one["name"] for one in listed} == set(policies())
    assert run_command(["policies"]) == 0
    assert "heet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "--policy is missing"),
        (["--policy", "fifo"], "--cluster is missing"),
        (["--policy", "fifo", "--cluster", "sia-64"], "--workload is missing"),
        (["--policy", "fifi", "--cluster", "sia-64", "--workload", "synthetic-2"], "'fifi'"),
        (
            ["--policy", "fifo", "--cluster", "sia-65", "--workload", "synthetic-2"],
            "multiple of 64",
        ),
        (["--policy", "fifo", "--cluster", "sia-64", "--workload", "synthetic-0"], "no job"),
        (["--policy", "fifo", "--cluster", "nope", "--workload", "synthetic-2"], "sia-64"),
        (["--policy", "fifo", "--cluster", "sia-64", "--workload", "nope"], "synthetic-160"),
        (["--policy", "fifo", "--seed", "1", "--seeds", "2"], "not both"),
        (["--policy", "fifo", "--jobs", "3"], "--jobs goes with --decide-only"),
        (["--policy", "fifo", "--decide-only"], "needs --jobs"),
        (["--policy", "fifo", "--in-place-seconds", "3"], "goes with --pauses own"),
        (["--policy", "heet", "--pauses", "own", "--in-place-seconds", "-3"], "--in-place-seconds"),
        (["--policy", "fifo", "--stragglers", "2"], "--stragglers must be from 0 to 1, not 2"),
        (["--policy", "fifo", "--stragglers", "nan"], "--stragglers"),
        (["--policy", "fifo", "--seeds", "1000000000"], "--seeds"),
        (["--policy", "fifo", "--processes", "1000000000"], "--processes"),
        (["--policy", "fifo", "--decide-only", "--jobs", "1000000000"], "--jobs"),
        (["--policy", "fifo", "--decide-only", "--devices", "1000000000"], "--devices"),
        (["--policy", "fifo", "--failure-hours", "1e-7"], "--failure-hours must be"),
        (["--policy", "fifo", "--failure-hours", "nan"], "--failure-hours must be"),
        (["--policy", "fifo", "--failure-hours", "-inf"], "--failure-hours must be"),
        (["--policy", "fifo", "--repair-hours", "0"], "--repair-hours must be"),
        (["--policy", "fifo", "--repair-hours", "inf"], "--repair-hours must be"),
        (["--policy", "fifo", "--repair-hours", "nan"], "--repair-hours must be"),
        (["--policy", "fifo", "--belief-error", "2.1"], "--belief-error must be from 0 to 2"),
        (["--policy", "fifo", "--belief-error", "-1"], "--belief-error must be"),
        (["--policy", "fifo", "--belief-error", "nan"], "--belief-error must be"),
        (["--policy", "fifo", "--belief-error", "1", "--beliefs", "learned"], "by themselves"),
        (["--policy", "fifo", "--availability", "x", "--failure-hours", "2"], "one of the two"),
        (["--policy", "heet", "--pauses", "own", "--in-place-seconds", "inf"], "--in-place"),
        (["--policy", "fifo", "--type-names", "t4"], "is not SUFFIX=TYPE"),
    ],
)
def test_wrong_use_is_told_in_one_line(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {"--cluster": "sia-64", "--workload": "synthetic-2"}
    if "--type-names" in options:
        options = options + [part for pair in whole.items() for part in pair]
    assert run_command(["simulate", *options]) == 2
    message = capsys.readouterr().err
    assert problem in message
    assert message.count("\n") == 1


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything is read or computed."""

    def called(*_: object, **__: object) -> None:
        pytest.fail("this must be refused before")

    for name in ("material", "run_all", "read_availability", "read_file", "decide_only"):
        monkeypatch.setattr(f"staves.simulation.{name}", called)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--output", "nodir/x.json"], "--output: {0}/nodir is not a folder"),
        (["--output", "c.yaml/x.json"], "--output: {0}/c.yaml is not a folder"),
        (["--output", "profiles"], "--output: {0}/profiles is a folder"),
        (["--output", "c.yaml"], "--output: {0}/c.yaml is what is read"),
        (["--output", "link"], "--output: {0}/link is what is read"),
        (["--output", "x" * 300], "--output: "),
        (["--report", "c.yaml"], "--report: {0}/c.yaml is not a folder"),
        (["--report", "c.yaml/in/it"], "--report: {0}/c.yaml is not a folder"),
        (["--dump", "nodir/x.json"], "--dump: {0}/nodir is not a folder"),
    ],
)
def test_where_nothing_can_be_written_nothing_is_simulated(
    files: list[str],
    options: list[str],
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "link").symlink_to("w.csv")
    before = sorted(tmp_path.iterdir())
    options = [options[0], str(tmp_path / options[1])]
    if options[0] == "--dump":
        options += ["--decide-only", "--jobs", "2", "--devices", "8"]
    assert run_command(["simulate", *files, "--policy", "fifo", *options]) == 2
    told = capsys.readouterr().err
    assert problem.format(tmp_path) in told
    assert told.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    "options", [["--failure-hours", "nan"], ["--belief-error", "3"], ["--repair-hours", "-1"]]
)
def test_bad_numbers_are_refused_before_files_are_read(
    files: list[str], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["simulate", *files, "--policy", "fifo", *options]) == 2
    assert f"staves: {options[0]} must be" in capsys.readouterr().err


def test_limits_are_within_what_is_taken(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An output that is there is written over; the least and the most of each option are taken."""
    out = tmp_path / "o.json"
    out.write_text("old")
    options = [*files, "--policy", "fifo", "--belief-error", "2", "--stragglers", "1"]
    options += ["--failure-hours", "inf", "--repair-hours", "10000", "--output", str(out)]
    assert json.loads(json.dumps(simulate(capsys, *options))) == json.loads(out.read_text())


def test_nodes_that_stay_away_for_good(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "a.csv"
    trace.write_text(",Timestamp,V100_x\n0,100,16\n1,101,0\n")
    (tmp_path / "c.yaml").write_text("nodes:\n  - {count: 4, devices: {v100: 4}}\n")
    options = ["--availability", str(trace), "--workload", "synthetic-2"]
    document = simulate(capsys, *files[:2], *options, "--policy", "fifo", "--policy", "tiresias")
    assert [run["summary"]["finished"] for run in document["runs"]] == [0, 0]


def test_unknown_applications_are_dropped_and_told(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "w.csv").write_text(small.WORKLOAD.replace("5,small", "5,smal"))
    assert run_command(["simulate", *files, "--policy", "fifo", "--json"]) == 0
    told = capsys.readouterr()
    assert [job["id"] for job in json.loads(told.out)["runs"][0]["jobs"]] == ["one"]
    assert "1 lines are jobs without a profile or a declared duration, of 'smal'" in told.err


def test_a_workload_of_unknown_applications_alone_is_refused(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "w.csv").write_text(small.WORKLOAD.replace("small", "cifar"))
    assert run_command(["simulate", *files[:4], "--policy", "fifo"]) == 2
    told = capsys.readouterr().err
    assert "no job has a profile or a declared duration: 'cifar'" in told
    assert told.count("\n") == 1


def test_a_report_is_one_page_that_needs_nothing(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    pages = []
    for name in ("one", "two"):
        folder = tmp_path / name
        simulate(capsys, *files, "--policy", "fifo", "--report", str(folder))
        names = {path.name for path in folder.iterdir()}
        assert names == {"index.html", "jct.png", "utilisation.png", "gantt-0-fifo.png"}
        assert all((folder / n).read_bytes().startswith(b"\x89PNG") for n in names if "png" in n)
        pages.append((folder / "index.html").read_text())
    assert pages[0] == pages[1]
    assert pages[0].count('src="data:image/png;base64,') == 3
    assert "http" not in pages[0]


def test_a_report_without_matplotlib_says_what_to_install(
    files: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert (
        run_command(["simulate", *files, "--policy", "fifo", "--report", str(tmp_path / "r")]) == 1
    )
    assert "staves[simulate]" in capsys.readouterr().err
