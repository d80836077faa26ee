"""What a change of devices costs: in place under Staves, and by restart under torchrun's agent.

Under Staves the pause is from the end of the last step over the old ranks to the end of the first
over the new ones: it holds that step, forming the group and handing over the state. Beside it the
same model under torchrun: the surviving agent starts its workers anew, and no state is carried
over, which flatters it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPT = HERE / "scripts" / "rescale_job.py"
WITHIN = 90.0  # seconds that any one event may take
REST = 2.0  # seconds of steady steps between two changes

RENDEZVOUS = {"last_call_timeout": "1"}
UNSHARED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

Row = tuple[float, int]
"""When a step ended, and over how many ranks it was."""


def measure(cycles: int = 6, losses: int = 2) -> dict[str, Any]:
    """Return the pauses of both sides, in seconds."""
    return {
        "parameters_millions": 8.4,
        "optimizer": "AdamW",
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg()[0],
        "in_place": in_place(cycles, losses),
        "restart": {f"{world}_ranks": restart(world) for world in (2, 4)},
        "torchrun": torchrun(),
        "load_average_after": os.getloadavg()[0],
    }


# -- in place


def in_place(
    cycles: int, losses: int, *, devices: Path = HERE / "four_cpus.yaml", **variables: str
) -> dict[str, Any]:
    """Scale 4 -> 3 -> 4 so many times, then kill rank 3 so many times; it is replaced each time."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        environ = {**os.environ, "STAVES_HOME": str(home), **variables}
        command = [sys.executable, "-m", "staves"]
        changes = 2 * (cycles + losses)
        options = ["--devices", str(devices), "--max", "4", "--json"]
        arguments = [str(home), "--changes", str(changes)]
        job = subprocess.Popen(
            [*command, "run", *options, str(SCRIPT), *arguments],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        asked: list[tuple[str, float]] = []
        try:
            _wait(lambda: _members(home) == 4)
            for _ in range(cycles):
                for world in (3, 4):
                    time.sleep(REST)
                    asked.append(("grow" if world == 4 else "shrink", time.time()))
                    scale = [*command, "scale", "latest", str(world), "--json"]
                    subprocess.run(scale, env=environ, check=True, stdout=subprocess.DEVNULL)
                    _wait(lambda world=world: _members(home) == world)  # type: ignore[misc]
            for _ in range(losses):
                time.sleep(REST)
                asked += [("loss", time.time()), ("grow", time.time())]
                os.kill(int((home / "rank-3.pid").read_text()), signal.SIGKILL)
                _wait(lambda: _members(home) == 3)
                _wait(lambda: _members(home) == 4)
            output, _ = job.communicate(timeout=WITHIN)
        finally:
            _end(job)
        figures = json.loads(output)
        rows = [(end, world) for end, world in json.loads((home / "steps.json").read_text())]
    return _pauses(rows, asked) | {
        "step_seconds": {str(world): _summary(_steady(rows, world)) for world in (3, 4)},
        "reported_pauses_seconds": figures["pauses_seconds"],
        "rescales": figures["rescales"],
    }


def _pauses(rows: Sequence[Row], asked: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Return for each kind of change its pauses, and the time from asking to the step after it."""
    changes = [(a[0], b[0]) for a, b in pairwise(rows) if a[1] != b[1]]
    if len(changes) != len(asked):
        raise RuntimeError(f"{len(asked)} changes were asked for, {len(changes)} were made")
    kinds: dict[str, list[tuple[float, float]]] = {"grow": [], "shrink": [], "loss": []}
    for (kind, since), (before, after) in zip(asked, changes, strict=True):
        kinds[kind].append((after - before, after - since))
    return {
        kind: {
            "pause_seconds": _summary([pause for pause, _ in times]),
            "from_asking_seconds": _summary([whole for _, whole in times]),
        }
        for kind, times in kinds.items()
        if times
    }


def _steady(rows: Sequence[Row], world: int) -> list[float]:
    """Return the step times over `world` ranks, but for the first after each change."""
    triples = zip(rows, rows[1:], rows[2:], strict=False)
    return [c[0] - b[0] for a, b, c in triples if a[1] == b[1] == c[1] == world]


def _members(home: Path) -> int:
    found = list(home.glob("runs/*/generation.json"))
    return len(json.loads(found[0].read_text())["members"]) if found else 0


# -- by restart


def restart(world: int) -> float:
    """Return the seconds from starting so many plain DDP processes to their first step's end."""
    with tempfile.TemporaryDirectory() as name:
        folder, port, began = Path(name), _free_port(), time.time()
        workers = [
            _start([str(SCRIPT), str(folder), "--plain"], RANK=str(rank), WORLD_SIZE=str(world),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
            for rank in range(world)
        ]  # fmt: skip
        try:
            _wait(lambda: len(_rows(folder)) > 0)
            return _rows(folder)[0][0] - began
        finally:
            for worker in workers:
                _end(worker)


def torchrun() -> dict[str, Any]:
    """Measure a node's joining and its loss under torchrun's elastic agent, once each."""
    settings = {"nnodes": "1:2", "rdzv_backend": "c10d", "rdzv_conf": RENDEZVOUS, **UNSHARED}
    figures: dict[str, Any] = {"settings": settings, "repetitions": 1}
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), _free_port()
        agents = []
        try:
            began = time.time()
            agents.append(_agent(folder, port))
            _wait(lambda: _first(folder, 1, began) is not None)
            figures["start_seconds"] = _since(folder, 1, began)
            time.sleep(REST)
            began = time.time()
            agents.append(_agent(folder, port))
            _wait(lambda: _first(folder, 2, began) is not None)
            figures["join_seconds"] = _since(folder, 2, began)
            time.sleep(REST)
            began = time.time()
            _kill(folder, agents[1])
            _wait(lambda: _first(folder, 1, began) is not None)
            figures["node_loss_seconds"] = _since(folder, 1, began)
        except TimeoutError:
            said = (folder / "agents.log").read_text().strip().splitlines()
            figures["failure"] = [f"nothing within {WITHIN:g} s", *said[-12:]]
        finally:
            for agent in agents:
                _kill(folder, agent)
    return figures


def _agent(folder: Path, port: int) -> subprocess.Popen[str]:
    return _start(
        ["-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=5",
         "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=bench",
         "--rdzv-conf=" + ",".join(f"{name}={value}" for name, value in RENDEZVOUS.items()),
         str(SCRIPT), str(folder), "--plain"],
        log=folder / "agents.log", OMP_NUM_THREADS="1", **UNSHARED,
    )  # fmt: skip


def _kill(folder: Path, agent: subprocess.Popen[str]) -> None:
    """Kill an agent and, as the loss of its node would, its worker."""
    workers = []
    for file in folder.glob("pid-*"):
        pid = int(file.name.removeprefix("pid-"))
        if _parent(pid) == agent.pid:
            workers.append(pid)
    for process in [agent.pid, *workers] if agent.poll() is None else []:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    agent.wait()


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _rows(folder: Path) -> list[Row]:
    file = folder / "steps.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [(end, world) for end, world in map(json.loads, lines)]


def _first(folder: Path, world: int, since: float) -> float | None:
    """Return when the first step over `world` ranks ended after `since`."""
    return next((end for end, w in _rows(folder) if w == world and end > since), None)


def _since(folder: Path, world: int, began: float) -> float:
    end = _first(folder, world, began)
    assert end is not None
    return end - began


# -- processes and figures


def _start(
    arguments: Sequence[str], log: Path | None = None, **environ: str
) -> subprocess.Popen[str]:
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", **environ}
    output = subprocess.DEVNULL if log is None else log.open("a")
    try:
        return subprocess.Popen(
            [sys.executable, *arguments], env=environ, stdout=output, stderr=output, text=True
        )
    finally:
        if not isinstance(output, int):
            output.close()


def _end(process: subprocess.Popen[str]) -> None:
    """End a process: a supervisor ends what it started if it is asked, a dead one cannot."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(15.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _summary(values: Sequence[float]) -> dict[str, Any]:
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "count": len(values),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
