"""The supervisor: starts workers, hears them, and leaves none behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staves.engines.local import Outcome, RunFolder, Supervisor
from staves.hardware import Device, parse_cluster
from tests.training.launch import ended

Runs = Callable[..., Outcome]


def devices(count: int) -> list[Device]:
    text = f"nodes: [{{name: box, devices: {{local-cpu: {count}}}}}]"
    return list(parse_cluster(text).devices())


class Heard:
    """What a supervisor passes on."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, dict[str, Any]]] = []
        self.output: dict[bool, bytes] = {False: b"", True: b""}
        self.warnings: list[str] = []

    def message(self, rank: int, message: dict[str, Any]) -> None:
        self.messages.append((rank, message))

    def data(self, is_stderr: bool, data: bytes) -> None:
        self.output[is_stderr] += data


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def run(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("STAVES_HOME", str(tmp_path))

    def run(text: str, *arguments: str, world: int = 1, **environ: str) -> Outcome:
        (tmp_path / "script.py").write_text("import os, signal, sys\n" + text)
        command = [sys.executable, str(tmp_path / "script.py"), *arguments]
        folder = RunFolder(tmp_path)
        before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), open_files())
        supervisor = Supervisor(
            command,
            devices(world),
            folder=folder,
            environ={**os.environ, **environ},
            on_message=heard.message,
            on_output=heard.data,
            on_warning=heard.warnings.append,
        )
        outcome = supervisor.run()
        after = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), open_files())
        assert after == before, "signal handlers and descriptors are given back"
        return outcome

    return run


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


SAY = """
import json, socket
def say(**message):
    line = socket.socket(fileno=os.dup(int(os.environ["STAVES_CHANNEL"])))
    line.sendall(json.dumps(message).encode() + b"\\n")
"""


def test_messages_and_reports(run: Runs, heard: Heard) -> None:
    text = "say(kind='log', text='€' * 50_000)\nsay(kind='finished', report={'steps': 3})"
    outcome = run(SAY + text)
    assert outcome.ok
    assert outcome.reports == {0: {"steps": 3}}
    assert [message["kind"] for _, message in heard.messages] == ["log", "finished"]
    assert heard.messages[0][1]["text"] == "€" * 50_000


def test_an_input_error_of_ours_is_a_refusal(run: Runs) -> None:
    outcome = run(SAY + "say(kind='refused', message='no', hint='yes')\nsys.exit(1)")
    assert not outcome.ok
    assert outcome.refusal == {"kind": "refused", "message": "no", "hint": "yes"}


def test_only_rank_0_is_shown_and_every_rank_is_kept(
    run: Runs, heard: Heard, tmp_path: Path
) -> None:
    text = "print('out', os.environ['RANK']); print('err', os.environ['RANK'], file=sys.stderr)"
    assert run(text, world=2).ok
    assert heard.output == {False: b"out 0\n", True: b"err 0\n"}
    for rank in (0, 1):
        lines = (tmp_path / "attempt-1" / f"rank-{rank}.log").read_text().splitlines()
        assert sorted(lines) == [f"err {rank}", f"out {rank}"]


def test_much_output_at_the_very_end_is_not_lost(run: Runs, heard: Heard) -> None:
    run("os.write(1, b'x' * 50_000); os.write(2, b'y' * 50_000); os._exit(0)")
    assert heard.output == {False: b"x" * 50_000, True: b"y" * 50_000}


def test_a_traceback_that_ends_nothing_is_shown(run: Runs, heard: Heard) -> None:
    text = "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()"
    assert run(text).ok
    assert heard.output[True].startswith(b"Traceback")
    assert b"ZeroDivisionError" in heard.output[True]


@pytest.mark.parametrize(
    ("text", "status"),
    [("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV)],
)
def test_a_failure_says_how(run: Runs, text: str, status: int) -> None:
    outcome = run(text)
    assert (outcome.failed, outcome.status) == ((0, "box/local-cpu-0"), status)
    assert not outcome.ok


def test_one_rank_that_fails_ends_the_others(run: Runs, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)  # the rank that fails waits until the other one is up
    text = (
        "if os.environ['RANK'] == '0':\n"
        "    open(sys.argv[1], 'w').write(str(os.getpid())); signal.pause()\n"
        "pid = open(sys.argv[1]).read()\n"
        "open(sys.argv[1] + '-read', 'w').write(pid)\n"
        "raise OSError('gone')\n"
    )
    outcome = run(text, str(pids), world=2)
    assert outcome.failed == (1, "box/local-cpu-1")
    assert outcome.traceback.splitlines()[0] == "Traceback (most recent call last):"
    assert outcome.traceback.splitlines()[-1] == "OSError: gone"
    assert ended(int(Path(f"{pids}-read").read_text()))


def test_what_workers_start_ends_with_the_run(run: Runs, tmp_path: Path) -> None:
    text = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))"
    )
    assert run(text, str(tmp_path / "pid")).ok
    assert ended(int((tmp_path / "pid").read_text()), timeout=10)


def test_the_environment(run: Runs, tmp_path: Path) -> None:
    text = "import json; json.dump(dict(os.environ), open(sys.argv[1] + os.environ['RANK'], 'w'))"
    assert run(text, str(tmp_path / "env-"), world=2, EXTRA="1").ok
    for rank in ("0", "1"):
        found = json.loads((tmp_path / f"env-{rank}").read_text())
        wanted = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": "2",
            "STAVES_HOME": str(tmp_path),
            "STAVES_MEMBER": str(rank),
            "STAVES_ATTEMPT": "1",
            "EXTRA": "1",
        }
        assert {name: found[name] for name in wanted} == wanted
        assert json.loads(found["STAVES_DEVICE"]) == {
            "name": f"box/local-cpu-{rank}",
            "type": "local-cpu",
        }


def test_a_worker_that_closes_its_line_costs_nothing(run: Runs, heard: Heard) -> None:
    """Such a line is readable for ever; serving it for ever would take a core from training."""
    text = (
        "import time\n"
        "def ticks():\n"
        "    fields = open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()\n"
        "    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')\n"
        "os.close(int(os.environ['STAVES_CHANNEL']))\n"
        "before, until = ticks(), time.process_time() + 0.5\n"
        "while time.process_time() < until: pass\n"
        "print(ticks() - before)"
    )
    assert run(text).ok
    assert float(heard.output[False]) <= 0.1, "seconds of the supervisor's, in 0.5 of the worker's"
