"""Submit four real jobs to a service on six emulated devices, watch them, and sum up.

Writes `demo/summary.json`. Durations of compute are declared; data, gradients, collectives,
processes, and the scheduler that moves them are real.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from examples.demo._comparison import compare, comparison_table
from examples.demo._summary import job_line, summarise
from examples.demo._table import final_table
from examples.demo._view import DemoView
from staves.errors import StavesError
from staves.hardware import read_cluster
from staves.service import Client

HERE = Path(__file__).parent
OUTPUT = Path("demo").absolute()
HOME = OUTPUT / "home"

ARRIVALS = ((0.0, "charlm"), (6.0, "digits"), (12.0, "highlight"), (18.0, "table"))
"""When which job is submitted, in seconds of the demo."""

PATIENCE = 280.0
"""Seconds after which the demo gives up: far beyond what a quiet machine needs."""

_LOOK = 0.5  # seconds between two looks
_ENDED = {"finished", "failed", "cancelled"}


def main() -> int:
    """Run the demo; return its exit code."""
    parser = argparse.ArgumentParser(prog="examples.demo", description=__doc__)
    parser.add_argument("--engine", default="local", help="as `staves up` has it")
    parser.add_argument("--address", help="of the Ray cluster")
    chosen = parser.parse_args()
    options = [f"--engine={chosen.engine}"]
    options += [f"--address={chosen.address}"] if chosen.address else []
    console = Console(highlight=False)
    console.print(
        "[bold]Staves demo[/]: four training jobs share six unlike devices ([bold]EMULATED[/]:"
        " compute durations are declared, all else is real)\n"
    )
    try:
        with service(options) as client:
            started = time.time()
            jobs = watch(client, console, started)
            seconds = time.time() - started
            decisions = client.decisions()
    except KeyboardInterrupt:
        console.print("interrupted: everything has been ended")
        return 130
    except StavesError as error:
        console.print(f"staves: {error.message}", markup=False)
        return error.exit_code
    except subprocess.CalledProcessError as error:
        return error.returncode
    cluster = read_cluster(HERE / "cluster.yaml")
    summary = summarise(jobs, decisions, started=started, seconds=seconds)
    summary["comparison"] = compare(jobs, cluster)
    write(summary)
    show(console, summary)
    bad = [job["name"] for job in summary["jobs"] if job["state"] != "finished"]
    if bad:
        console.print(f"not finished: {', '.join(bad)}; logs: {HOME / 'jobs'}")
    return 1 if bad else 0


@contextlib.contextmanager
def service(options: Sequence[str]) -> Iterator[Client]:
    """Start a service of the demo's own; nothing of it is left afterwards.

    Args:
        options: of `staves up`, further ones.
    """
    os.environ["STAVES_HOME"] = str(HOME)
    for name in ("STAVES_URL", "STAVES_TOKEN"):
        os.environ.pop(name, None)
    if HOME.exists():
        staves("down")  # of a demo that was killed
        shutil.rmtree(HOME)
    try:
        staves("up", "--cluster", str(HERE / "cluster.yaml"), *options, "--json")
        with Client(HOME) as client:
            yield client
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # one Ctrl-C is enough
        try:
            staves("down")
        finally:
            signal.signal(signal.SIGINT, before)


def staves(*arguments: str) -> None:
    """Run a command as anyone would; what it prints is shown only if it fails."""
    command = [sys.executable, "-m", "staves", *arguments]
    # In a session of its own: Ctrl-C is ours, and what is begun is done.
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, start_new_session=True
    )
    if done.returncode != 0:
        print(done.stderr, end="", file=sys.stderr)
        done.check_returncode()


def watch(client: Client, console: Console, started: float) -> list[dict[str, Any]]:
    """Submit the jobs as their times come, and show them until all have ended."""
    names = [device.name for device in read_cluster(HERE / "cluster.yaml").devices()]
    arrivals = list(ARRIVALS)
    with DemoView(names, console) as view:
        while True:
            now = time.time() - started
            while arrivals and arrivals[0][0] <= now:
                staves("submit", str(HERE / f"{arrivals.pop(0)[1]}.yaml"))
            jobs = client.jobs(everything=True)
            view.show(now, [job_line(job) for job in jobs])
            if not arrivals and all(job["state"] in _ENDED for job in jobs):
                return [client.job(job["id"]) for job in jobs]
            if now > PATIENCE:
                raise StavesError(
                    f"the jobs have not ended within {PATIENCE:.0f} s",
                    hint="the machine is very busy",
                )
            time.sleep(_LOOK)


def write(summary: dict[str, Any]) -> None:
    """Write the summary whole or not at all."""
    part = OUTPUT / "summary.json.part"
    part.write_text(json.dumps(summary, indent=2) + "\n")
    part.replace(OUTPUT / "summary.json")


def show(console: Console, summary: dict[str, Any]) -> None:
    """Print what the demo has shown."""
    console.print()
    console.print(final_table(summary))
    if any(job["void"] for job in summary["jobs"]):
        console.print("VOID: over 2 % of the emulated steps were late; the machine is busy.")
    console.print()
    console.print(comparison_table(summary))
    console.print(f"\n[bold]One decision[/]: {summary['explained']}", soft_wrap=True)
    console.print(f"\nwritten: {OUTPUT / 'summary.json'}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
