"""The training benchmark's commands: how they end, in one line, when something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.training import checks, choosing, matrix
from benchmarks.training.cells import FIXED, names
from benchmarks.training.declared import BALANCED_BATCHES, DDP_BATCHES, WORKLOADS
from benchmarks.training.results import Results

from benchmarks import command
from staves.errors import InputError, StavesError, TrainingError

ROOT = Path(__file__).parents[2]
IMAGES = WORKLOADS[0]
ONE_CELL = ("--workload", "images", "--mix", "contended", "--seed", "5")
LONG = 120.0  # seconds that a loaded machine may take


def made_up(name: str) -> dict[str, Any]:
    """Return a run as the benchmark makes them, without the training."""
    kind, _, batch = name.partition(" ")
    if kind == "fixed":
        return {"batch": int(batch), "steps": 100.0, "noise_scale": 50.0, "loss": 2.0}
    if kind == "balanced":
        fixed = [f"ddp at {times * IMAGES.reference}" for times in DDP_BATCHES]
        fixed += [f"{system} at {IMAGES.reference}" for system in FIXED]
        both = {system: {"whole": 1.5, "second_half": 1.6} for system in FIXED}
        return {
            "systems": {system: {"seconds": 9.0} for system in fixed},
            "balance": {str(times * IMAGES.reference): both for times in BALANCED_BATCHES},
        }
    return {
        "seconds": 3.0,
        "steps": 40.0,
        "loss": 2.0,
        "batches": {"median": 128, "last": 256},
        "noise_scale": 50.0,
        "changes": 3,
        "regret": {"whole": 0.08, "after_ramp": 0.02},
    }


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with all runs of ONE_CELL."""
    results = Results(tmp_path / "kept")
    for name in names(IMAGES):
        mix = () if name.startswith("fixed") else ("contended",)
        results.run(("images", "seed 5", *mix, name), lambda name=name: made_up(name))  # type: ignore[misc]
    return tmp_path / "kept"


def benchmark(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.training", *ONE_CELL, *arguments],
        **{"cwd": ROOT, "stderr": subprocess.PIPE, "text": True, "timeout": LONG, **options},
    )


def check_one_line(ended: subprocess.CompletedProcess[str], code: int, says: str) -> None:
    assert ended.returncode == code, ended.stderr
    told = [line for line in ended.stderr.splitlines() if line.startswith("benchmarks.training: ")]
    assert len(told) == 1
    assert says in told[0]
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_kept_runs_are_all_that_a_second_time_takes(kept: Path) -> None:
    ended = benchmark("--results", str(kept), "--seed", "5", stdout=subprocess.PIPE)
    assert ended.returncode == 0, ended.stderr
    assert " ...\n" not in ended.stderr
    (cell,) = json.loads(ended.stdout)["cells"]
    assert cell["systems"]["ours adaptive"]["seconds"] == 3.0


def test_a_full_standard_output_is_told(kept: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = benchmark("--results", str(kept), stdout=full)
    check_one_line(ended, 1, "standard output: No space left on device")


def test_a_standard_output_that_nobody_reads_is_told(kept: Path) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as gone:
        ended = benchmark("--results", str(kept), stdout=gone)
    check_one_line(ended, 1, "standard output: Broken pipe")


def test_a_closed_standard_output_is_told_before_anything_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    ended = benchmark("--results", str(folder), preexec_fn=lambda: os.close(1))
    check_one_line(ended, 1, "standard output is closed")
    assert not folder.exists()


def test_a_closed_standard_error_leaves_the_document_alone(kept: Path) -> None:
    ended = benchmark(
        "--results", str(kept), stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2)
    )
    assert ended.returncode == 0
    assert len(json.loads(ended.stdout)["cells"]) == 1


def test_ctrl_c_ends_in_one_line_and_the_finished_runs_are_kept(kept: Path) -> None:
    (missing,) = kept.rglob("fixed-128.json")
    missing.unlink()
    files = sorted(path for path in kept.rglob("*") if path.is_file())
    running = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.training", *ONE_CELL, "--results", str(kept)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # if ours ignores it
    )
    with running:
        assert running.stderr is not None
        try:
            for line in running.stderr:
                if "fixed 128 ..." in line:
                    break
            running.send_signal(signal.SIGINT)
            rest = running.stderr.read()
            code = running.wait(LONG)
        finally:
            running.kill()
    check_one_line(subprocess.CompletedProcess([], code, "", rest), 130, "interrupted")
    assert sorted(path for path in kept.rglob("*") if path.is_file()) == files


def in_this_process(
    main: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> int:
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.run("benchmark", main)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--results", ""), "--results: no folder is named"),
        (("--results", "/proc/nope"), "/proc/nope cannot be written to"),
        (("--again", "nosuch"), "'nosuch' is no system that is run here (known: fixed 64, "),
        (("--again", ""), "--again: '' is no system"),
        (("--workload", "speech", "--again", "fixed 64"), "(known: fixed 20, "),
        (("--again", "balanced", "--again", "ours"), "--again: 'ours' is no system"),
    ],
)
def test_what_the_matrix_refuses(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert in_this_process(matrix.main, monkeypatch, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_again_takes_the_names_of_all_runs(
    workload: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[str, ...]] = []

    def stop(results: Results, *_: Any) -> None:
        taken.append(results._again)
        raise KeyboardInterrupt

    monkeypatch.setattr(matrix, "cell", stop)
    every = names(workload)
    again = [word for name in every for word in ("--again", name)]
    where = ("--workload", workload.name, "--results", str(tmp_path))
    assert in_this_process(matrix.main, monkeypatch, *where, *again) == 130
    assert taken == [tuple(every)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--rate", "nan"), "--rate: nan is not positive"),
        (("--rate", "0.1", "--rate", "-1"), "--rate: -1.0 is not positive"),
        (("--rate", "0.1", "--steps", "0"), "--steps: 0 is not a positive integer"),
        (("--rate", "0.1", "--times", "0"), "--times: 0 is not a positive integer"),
        (("--rate", "0.1", "--seed", "-1"), "--seed: -1 is outside"),
    ],
)
def test_what_choosing_refuses(
    arguments: tuple[str, ...],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--workload", "images", *arguments)
    assert in_this_process(choosing.main, monkeypatch, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def check(monkeypatch: pytest.MonkeyPatch, file: Path, measure: Callable[[], Any]) -> int:
    monkeypatch.setattr(sys, "argv", ["check", "--json", str(file)])
    with pytest.raises(SystemExit) as ended:
        checks.run("settling", "A check.", measure, lambda document: ["told"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("place", ["", ".", "file/below", "none/below", "n" * 300])
def test_a_check_finds_out_first_where_its_document_cannot_go(
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("precious")
    monkeypatch.chdir(tmp_path)

    def never() -> None:
        raise AssertionError("measured")

    assert check(monkeypatch, Path(place), never) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("benchmarks.training.settling: --json: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_check_leaves_an_earlier_document_alone_until_it_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("earlier")
    assert check(monkeypatch, old, interrupted) == 130
    assert old.read_text() == "earlier"
    assert check(monkeypatch, new, interrupted) == 130
    assert not new.exists()
    assert check(monkeypatch, old, lambda: {"a": 1}) == 0
    assert json.loads(old.read_text()) == {"a": 1}


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("bad", hint="mend it"), 2, "benchmark: bad (mend it)"),
        (TrainingError("lost"), 1, "benchmark: lost"),
        (StavesError("two\nlines"), 1, "benchmark: two\\nlines"),
        (KeyboardInterrupt(), 130, "benchmark: interrupted"),
        (OSError(28, "No space left on device", "x.json"), 1, "x.json: No space left on device"),
        (OSError(28, "No space left on device"), 1, "standard output: No space left on device"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_goes_wrong_is_one_line_and_a_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        raise error

    assert in_this_process(fails, monkeypatch) == code
    (told,) = capsys.readouterr().err.splitlines()
    assert told.endswith(line)


def test_a_mistake_of_our_own_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command.run("benchmark", mistaken)
