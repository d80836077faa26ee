"""`staves up`, `status` and `down` as commands, with a real controller's process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from staves.cli import run_command
from staves.service import ServiceFolder
from tests.service.test_daemon import FAKE, folder, reap

__all__ = ["folder"]


def staves(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(autouse=True)
def _home(folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAVES_HOME", str(folder.home))
    monkeypatch.setattr("staves.service._settings.CONTROLLER", FAKE)


def test_up_status_second_up_down(
    folder: ServiceFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = staves(capsys, "up", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert set(told) == {"url", "token_file", "data_dir", "pid"}
    code, out, _ = staves(capsys, "status", "--json")
    assert code == 0
    assert json.loads(out)["pid"] == told["pid"] == json.loads(out)["health"]["pid"]
    code, out, err = staves(capsys, "up", "--json")
    assert (code, out) == (2, "")
    assert f"a service runs already: process {told['pid']} at {told['url']}" in err
    code, out, err = staves(capsys, "down", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"was": "up", "forced": False, "leftovers": 0}
    reap(told["pid"])
    assert staves(capsys, "down") == (0, "staves: no service was running\n", "")


def test_bad_input_starts_nothing(
    folder: ServiceFolder, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text("nodes: []\nmore: 1\n")
    for arguments, said in (
        (["--cluster", str(tmp_path / "absent.yaml")], "absent.yaml"),
        (["--cluster", str(tmp_path / "cluster.yaml")], "cluster.yaml"),
        (["--port", "70000"], "--port"),
        (["--policy", "nope"], "--policy: no policy nope"),
        (["--quota", "ann"], "--quota: 'ann' is not TENANT=N"),
        (["--quota", "ann=1", "--quota", "ann=2"], "--quota: 'ann' has two"),
    ):
        code, out, err = staves(capsys, "up", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert len(err.splitlines()) == 1
    assert folder.state == "absent"


def test_one_in_the_foreground_stays_until_it_is_ended(folder: ServiceFolder) -> None:
    code = (
        f"import sys, staves.service._settings as s; s.CONTROLLER = {FAKE!r}; "
        "from staves.cli import main; main(['up', '--foreground', '--json'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["pid"] == process.pid == folder.pid
        assert httpx.get(f"{told['url']}/healthz").is_success
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 0
    assert err.splitlines()[-1].startswith("staves: the controller has ended")
    assert folder.state == "absent"
