"""`staves run` refuses bad input in one line, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from staves.cli import run_command

TWO = "nodes: [{name: box, devices: {local-cpu: 2}}]"
HUNGRY = """
types:
  big:
    emulate:
      forward: {fixed: 1ms, per_sample: 1ms}
      backward: {fixed: 1ms, per_sample: 1ms}
      min_batch: 8
nodes: [{devices: {big: 2}}]
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAVES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "script.py").write_text("raise SystemExit('this script was started')")
    (tmp_path / "folder").mkdir()


def refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """Run `staves run ARGUMENTS`, which must be refused; return its one line."""
    assert run_command(["run", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("staves: ")
    assert not Path("home").exists(), "nothing may have been started"
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.py"], "absent.py: no such script (check the path)"),
        (["folder"], "folder: is not a file"),
        ([""], "no"),
        (["--nope", "script.py"], "unknown option --nope before the script"),
        (["--min", "3", "--max", "2", "script.py"], "--min: 3 is above --max 2"),
        (["--min", "3", "script.py"], "--min: 3 devices are wanted, there are 2"),
        (["--min", "0", "script.py"], "--min: 0 is not a positive number"),
        (["--min", "two", "script.py"], "Invalid value for '--min'"),
        (["--max", "0", "script.py"], "--max: 0 is not a positive number"),
        (["--batch", "0", "script.py"], "--batch: 0 is not a positive number"),
        (["--split", "most", "script.py"], "--split: 'most' is no split"),
        (["--split", "1,,2", "script.py"], "--split: '1,,2' is no split"),
        (["--split", "1,2,3", "script.py"], "does not give 2 devices"),
        (["--split", "-1,3", "script.py"], "does not give 2 devices"),
        (["--split", "8,8", "--batch", "12", "script.py"], "sums to 16, --batch is 12"),
        ([], "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.yaml").write_text(TWO)
    assert said in refused(capsys, ["--devices", "two.yaml", *arguments])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [", "cluster.yaml"),
        ("", "cluster.yaml"),
        ("- 1", "cluster.yaml"),
        ("nodes: [{devices: {local-cpu: 2}, linc: 3}]", "linc"),
        ("nodes: []", "device"),
        ("nodes: [{devices: {}}]", "device"),
        ("nodes: [{devices: {local-cpu: 0}}]", "local-cpu"),
        ("nodes: [{devices: {no-such-gpu: 1}}]", "no-such-gpu"),
        ("\x00", "cluster.yaml"),
    ],
    ids=repr,
)
def test_cluster_files(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cluster.yaml").write_text(text)
    line = refused(capsys, ["script.py", "--devices", "cluster.yaml"])
    assert "cluster.yaml" in line
    assert said in line


def test_a_cluster_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent.yaml" in refused(capsys, ["script.py", "--devices", "absent.yaml"])


def test_a_batch_below_the_devices_minimums(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hungry.yaml").write_text(HUNGRY)
    line = refused(capsys, ["script.py", "--devices", "hungry.yaml", "--batch", "15"])
    assert "--batch: 15 is below the devices' min_batch, 16 in all" in line
