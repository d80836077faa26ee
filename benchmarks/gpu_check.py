"""`make gpu-check`: what only a GPU can prove, in one script under four minutes.

Each check runs in processes of its own (two of them share one GPU over gloo), so that one that
hangs or dies takes no other along. It prints a line, PASS, FAIL or SKIP; JSON of all comes last.
Without a GPU all are skipped, and that is no failure. `--device cpu` is a dry run of those parts
that do not need one.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parent.parent
RANK = Path(__file__).parent / "scripts" / "gpu_rank.py"
BUDGET = 225.0  # seconds for everything, start to end
LONGEST = 75.0  # seconds of one check: a hang leaves time for the others

Verdict = Literal["PASS", "FAIL", "SKIP"]


@dataclass(frozen=True)
class Check:
    """One check: how many processes it takes, and whether a CPU can stand in for the GPU."""

    name: str
    says: str
    processes: int = 2
    on_cpu: bool = True


CHECKS = (
    Check("sharing", "two processes share a GPU over gloo and train as one process would"),
    Check("timing", "events in the hook time the steps, and the split follows from them"),
    Check("scaler", "a non-finite fp16 step is void on all ranks, and the scale backs off"),
    Check("oom", "a rank that runs out of memory gets a lower cap, and training goes on"),
    Check(
        "memory", "peak memory is a line of the local batch, and the fit tells the cap", 2, False
    ),
    Check("hook", "the hook never synchronises with the device", 1, False),
    Check("run", "staves run trains on the machine's own GPUs", 0, False),
)


@dataclass(frozen=True)
class Result:
    """How a check ended."""

    check: str
    verdict: Verdict
    said: str
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_check")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    names = [check.name for check in CHECKS]
    parser.add_argument("--only", action="append", choices=names, metavar="CHECK")
    options = parser.parse_args(arguments)
    reason = _no_gpu() if options.device == "cuda" else None
    began = time.monotonic()
    results = []
    for check in CHECKS:
        if options.only and check.name not in options.only:
            continue
        left = BUDGET - (time.monotonic() - began)
        if reason is not None:
            result = Result(check.name, "SKIP", reason)
        elif options.device == "cpu" and not check.on_cpu:
            result = Result(check.name, "SKIP", "a CPU cannot stand in for a GPU here")
        elif left < 5:
            result = Result(check.name, "FAIL", "no time was left for it")
        else:
            result = _run(check, options.device, min(LONGEST, left))
        results.append(result)
        print(f"{result.verdict} {check.name}: {check.says}: {result.said}", flush=True)
    print(json.dumps({"device": options.device, "results": [asdict(each) for each in results]}))
    return 1 if any(each.verdict == "FAIL" for each in results) else 0


def _no_gpu() -> str | None:
    import torch

    return None if torch.cuda.is_available() else "torch sees no CUDA device on this machine"


def _run(check: Check, device: str, timeout: float) -> Result:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        if check.processes == 0:
            verdict, said, figures = _staves_run(home, timeout)
        else:
            verdict, said, figures = _ranks(check, device, home, timeout)
    return Result(check.name, verdict, said, round(time.monotonic() - began, 1), figures)


def _ranks(
    check: Check, device: str, home: str, timeout: float
) -> tuple[Verdict, str, dict[str, Any]]:
    """Run a check's ranks as any launcher would, both on the first GPU."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ranks = []
    for rank in range(check.processes):
        environ = _environment(home) | {
            "RANK": str(rank),
            "WORLD_SIZE": str(check.processes),
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        if device == "cpu":
            environ["CUDA_VISIBLE_DEVICES"] = ""
        command = [sys.executable, str(RANK), check.name]
        ranks.append(
            subprocess.Popen(
                command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )
    deadline = time.monotonic() + timeout
    ended = []
    try:
        for process in ranks:
            ended.append(process.communicate(timeout=max(0.1, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        return "FAIL", f"no end within {timeout:.0f} s", {}
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
    failed = [
        f"rank {rank}: {(errors.strip().splitlines() or [f'exit status {code}'])[-1][:200]}"
        for rank, (code, (_, errors)) in enumerate(
            zip((process.returncode for process in ranks), ended, strict=True)
        )
        if code != 0
    ]
    return ("FAIL", "; ".join(failed), {}) if failed else _verdict(ended[0][0])


def _verdict(output: str) -> tuple[Verdict, str, dict[str, Any]]:
    """Read what rank 0 said on its last line."""
    lines = output.strip().splitlines()
    if not lines:
        return "FAIL", "rank 0 said nothing", {}
    told: Mapping[str, Any] = json.loads(lines[-1])
    return ("PASS" if told["ok"] else "FAIL"), told["said"], dict(told["figures"])


def _staves_run(home: str, timeout: float) -> tuple[Verdict, str, dict[str, Any]]:
    example = ROOT / "examples" / "digits.py"
    command = [sys.executable, "-m", "staves", "run", str(example), "--json", "--epochs", "4"]
    try:
        done = subprocess.run(
            command, env=_environment(home), capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return "FAIL", f"no end within {timeout:.0f} s", {}
    if done.returncode != 0:
        return "FAIL", (done.stderr.strip().splitlines() or ["no message"])[-1], {}
    figures = json.loads(done.stdout)
    timed = figures["steps"] > 0 and figures["step_seconds"] is not None
    return ("PASS" if timed else "FAIL"), f"{figures['steps']} steps", figures


def _environment(home: str) -> dict[str, str]:
    ours = {n: v for n, v in os.environ.items() if not n.startswith("STAVES_")}
    return ours | {"STAVES_HOME": home, "GLOO_SOCKET_IFNAME": "lo"}


if __name__ == "__main__":
    sys.exit(main())
