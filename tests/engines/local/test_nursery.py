"""Forked workers are what executed ones are; whatever becomes of the nursery, workers start."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from staves.engines.local import _nursery
from tests.engines.local.starting import Start, devices, start
from tests.training.launch import ended, environment

ENDINGS = {
    "well": "print('out'); print('err', file=sys.stderr)",
    "status": "sys.exit(3)",
    "words": "sys.exit('words')",
    "none": "sys.exit()",
    "raise": "def f():\n    raise OSError('gone')\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "interrupt": "raise KeyboardInterrupt",
    "at once": "print('unflushed'); os._exit(5)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "segfault": "os.kill(os.getpid(), signal.SIGSEGV)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "atexit": "import atexit; atexit.register(print, 'last', __name__); sys.exit(4)",
    "thread": (
        "import threading\nstarted = threading.Event()\n"
        "def late():\n    started.wait(); print('late', threading.main_thread().is_alive())\n"
        "threading.Thread(target=late).start(); started.set()"
    ),
    "hook": "sys.excepthook = lambda kind, e, t: print(kind, e, t.tb_lineno)\nraise OSError('x')",
    "refused": "import staves; staves.init(batch_size=0)",
    "annotated": "x: undefined = 1",
    "pickle": "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)",
    "loader": (
        "import torch\n"
        "class Squares(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 16\n"
        "    def __getitem__(self, i): return float(i * i)\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn'):\n"
        "        batches = torch.utils.data.DataLoader(\n"
        "            Squares(), batch_size=4, num_workers=2, multiprocessing_context=how)\n"
        "        print([float(b.sum()) for b in batches])"
    ),
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One script for all endings: an environment variable chooses among files that it runs."""
    folder = tmp_path_factory.mktemp("endings")
    return folder


@pytest.fixture(scope="module")
def endings(scripts: Path) -> Iterator[dict[bool, Start]]:
    """What is the same for all: a script that the case is put into just before it starts."""
    script = scripts / "script.py"
    script.write_text("import torch\n")
    with start(script) as forked, start(script, forked=False) as executed:
        yield {True: forked, False: executed}


@pytest.mark.parametrize("case", ENDINGS)
def test_it_ends_as_an_executed_one_does(
    case: str, scripts: Path, endings: dict[bool, Start]
) -> None:
    text = "# trains with torch\nimport os, signal, sys\n" + ENDINGS[case] + "\n"
    (scripts / "script.py").write_text(text)
    member = list(ENDINGS).index(case)
    for running in endings.values():
        running.worker(member)
    (forked,), (executed,) = (running.until_ended(member) for running in endings.values())
    assert (forked.forked, executed.forked) == (True, False)
    assert forked.status == executed.status
    assert forked.stdout == executed.stdout
    assert forked.stderr == executed.stderr


STANDING = """
import ctypes, json, locale, os, resource, signal, sys, threading
import staves.training, torch
def stands():
    death = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(death))
    here = sys.modules["__main__"]
    files = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            files[name] = os.readlink(f"/proc/self/fd/{name}").partition(":")[0]
        except FileNotFoundError:  # the listing's own
            pass
    channel = os.environ["STAVES_CHANNEL"]
    return {
        "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "cwd": os.getcwd(),
        "name": __name__, "file": __file__, "spec": __spec__, "package": __package__,
        "globals": sorted(globals()), "main": vars(here) is globals(),
        "loader": type(__loader__).__name__, "source": __loader__.get_source("__main__"),
        "environ": {k: v for k, v in os.environ.items() if k != "STAVES_CHANNEL"},
        "c environ": ctypes.CDLL(None).getenv(b"ONLY_HERE") != 0,
        "channel": [files.pop(channel), os.get_inheritable(int(channel))], "files": files,
        "standard": [[s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty()]
                     for s in (sys.stdin, sys.stdout, sys.stderr)],
        "signals": [str(signal.getsignal(n)) for n in (2, 13, 15, 1, 10, 17)],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "parent": os.getppid(), "leads": os.getpid() == os.getsid(0) == os.getpgrp(),
        "death": death.value, "threads": len(os.listdir("/proc/self/task")),
        "main thread": threading.current_thread() is threading.main_thread(),
        "flags": list(sys.flags), "locale": locale.getlocale(),
        "recursion": sys.getrecursionlimit(),
        "umask": os.umask(0o22), "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
        "torch threads": torch.get_num_threads(), "dtype": str(torch.get_default_dtype()),
        "hook": sys.excepthook is sys.__excepthook__,
    }
print(json.dumps(stands()))
"""


def standing(script: Path, forked: bool, *arguments: str) -> dict[str, Any]:
    with start(script, *arguments, forked=forked) as running:
        running.worker(0, {"ONLY_HERE": "1"})
        (ending,) = running.until_ended(0)
        assert ending.status == 0, ending.stderr
        assert ending.forked is forked
        found: dict[str, Any] = json.loads(ending.stdout)
        del found["environ"]["STAVES_FORK"]
        return found


def test_it_stands_where_an_executed_one_does(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "script.py").write_text(STANDING)
    script = tmp_path / "a" / ".." / "a" / "script.py"
    forked, executed = (standing(script, how, "--x", "y z") for how in (True, False))
    assert forked["parent"] == os.getpid()
    assert forked["death"] == signal.SIGKILL
    assert forked == executed


def test_random_numbers_are_each_workers_own(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import random, numpy, torch\n"
        "print(random.random(), numpy.random.rand(), float(torch.rand(1)), torch.initial_seed())"
    )
    with start(script) as running:
        for member in range(3):
            running.worker(member)
        ends = running.until_ended(0, 1, 2)
    numbers = [number for ending in ends for number in ending.stdout.split()]
    assert len(set(numbers)) == 12


SLEEPS = "import signal, sys, torch\nprint('up', flush=True)\nsignal.pause()"


def nursery(running: Start) -> int:
    assert running.starter._nursery is not None
    return running.starter._nursery.pid


def test_only_emulated_devices_have_forked_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch")
    with start(script) as running:
        running.worker(0)
        running.worker(1, device=devices("local-cpu")[0])
        assert [e.forked for e in running.until_ended(0, 1)] == [True, False]
        for mixed in ([], [*devices("emu"), *devices("local-cpu")], devices("local-cpu")):
            other = Start(running.starter._command, tmp_path)
            other.starter.prepare(mixed)
            assert other.starter._nursery is None
            other.loop.close()


def test_a_worker_outlives_the_nursery_and_the_next_is_executed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SLEEPS)
    with start(script) as running:
        running.worker(0)
        running.until_started(0)
        os.kill(nursery(running), signal.SIGKILL)
        assert ended(nursery(running), timeout=30)
        running.worker(1)
        running.worker(2)
        running.until_started(1, 2)
        assert [running.endings[m].forked for m in (0, 1, 2)] == [True, False, False]
        assert running.workers[0].process.poll() is None
        assert len(running.warnings) == 1
        assert "signal 9" in running.warnings[0]
        for worker in list(running.workers.values()):
            worker.process.signal(signal.SIGTERM)
        assert {e.status for e in running.until_ended(0, 1, 2)} == {-signal.SIGTERM}


def test_one_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch; print('done')")
    with start(script) as running:
        os.kill(nursery(running), signal.SIGSTOP)
        for member in range(3):
            running.worker(member)
        monkeypatch.setattr(_nursery, "_PATIENCE", 0.0)
        ends = running.until_ended(0, 1, 2)
        assert ended(nursery(running), timeout=30)
    assert [(e.forked, e.stdout) for e in ends] == [(False, b"done\n")] * 3
    assert len(running.warnings) == 1
    assert running.warnings[0].endswith("it does not answer")


@pytest.mark.parametrize(
    ("module", "text", "reason"),
    [
        ("torch", "raise ImportError('no')", "it has failed"),
        ("sitecustomize", "import threading\nthreading.Thread(target=threading.Event().wait, "
         "daemon=True).start()", "it has 2 threads"),
    ],
)  # fmt: skip
def test_one_that_cannot_serve_costs_only_a_warning(
    module: str, text: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "shadows").mkdir()
    (tmp_path / "shadows" / f"{module}.py").write_text(text)
    script = tmp_path / "script.py"
    script.write_text("print('needs no torch')")
    path = os.pathsep.join([str(tmp_path / "shadows"), environment(tmp_path)["PYTHONPATH"]])
    with start(script, PYTHONPATH=path) as running:
        for member in range(2):
            running.worker(member)
        ends = running.until_ended(0, 1)
    assert [(e.forked, e.status) for e in ends] == [(False, 0)] * 2
    assert [re.sub(".*: ", "", line) for line in running.warnings] == [reason]


def test_an_environment_too_long_for_a_message(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, torch; print(len(os.environ['A']) + len(os.environ['J']))")
    long = {chr(ord("A") + n): "x" * 100_000 for n in range(10)}
    with start(script) as running:
        running.worker(0, long)
        running.worker(1, {"A": "a", "J": "j"})
        ends = running.until_ended(0, 1)
    assert [(e.forked, e.stdout) for e in ends] == [(False, b"200000\n"), (True, b"2\n")]


def open_files() -> list[str]:
    files = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            files.append(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115
    return sorted(files)


def test_closing_while_workers_are_awaited_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SLEEPS)
    gc.collect()  # what earlier tests have left
    before = open_files()
    with start(script) as running:
        for member in range(4):
            running.worker(member)
        running.until_started(0)
        children = [nursery(running), *(w.process.pid for w in running.workers.values())]
    assert all(ended(pid, timeout=30) for pid in children)
    assert open_files() == before
