"""Train a real model over six emulated devices, and show what the optimal split gains.

Writes `demo/summary.json`. Durations of compute are declared; everything else is real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from staves.hardware import Cluster, read_cluster

HERE = Path(__file__).parent
OUTPUT = Path("demo")


def main() -> int:
    console = Console(highlight=False)
    cluster = read_cluster(HERE / "cluster.yaml")
    console.print(
        "[bold]Staves demo[/]: one training job over six unlike devices "
        "([bold]EMULATED[/]: compute durations are declared; data, gradients and processes are"
        " real)\n"
    )
    started = time.monotonic()
    status, figures = train()
    if figures is None:
        return status
    seconds = time.monotonic() - started
    summary = summarise(cluster, figures, seconds)
    write(summary)
    show(console, cluster, figures, summary)
    return 0


def train() -> tuple[int, dict[str, Any] | None]:
    """Run the job as anyone would; return its exit code and its figures."""
    command = [sys.executable, "-m", "staves", "run", str(HERE.parent / "digits.py")]
    command += ["--devices", str(HERE / "cluster.yaml"), "--json"]
    environ = {**os.environ, "STAVES_HOME": str(OUTPUT / "home")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        while True:
            try:
                printed, _ = process.communicate()
                break
            except KeyboardInterrupt:  # the run has got it too, and is ending its workers
                continue
    if process.returncode != 0:
        return process.returncode, None
    return 0, json.loads(printed)


def summarise(cluster: Cluster, figures: dict[str, Any], seconds: float) -> dict[str, Any]:
    types = [device.type.name for device in cluster.devices()]
    names = ", ".join(
        f"{device.name} {local}"
        for device, local in zip(cluster.devices(), figures["local_batches"], strict=True)
    )
    step = figures["step_seconds"]["p50"]
    explained = (
        f"Each step trains {sum(figures['local_batches'])} samples. An even split waits for the "
        f"slowest type and takes {figures['even_step_seconds'] * 1e3:.0f} ms. Two probe phases "
        f"showed each device's time as a line over its local batch; the split that lets all of "
        f"them finish together is {names}: predicted {figures['predicted_step_seconds'] * 1e3:.0f}"
        f" ms, measured {step * 1e3:.0f} ms."
    )
    job = {
        "name": "digits",
        "state": "finished",
        "device_types": sorted(set(types)),
        "mixed": len(set(types)) > 1,
        "rescales": figures["rescales"],
        "pauses_seconds": [],
        "jct_seconds": seconds,
        "local_batches": figures["local_batches"],
        "step_seconds": step,
        "predicted_step_seconds": figures["predicted_step_seconds"],
        "even_step_seconds": figures["even_step_seconds"],
        "loss": figures["loss"],
        "accuracy": figures["metrics"].get("accuracy"),
        "void": figures["void"],
    }
    return {"emulated": True, "seconds": seconds, "jobs": [job], "explained": explained}


def write(summary: dict[str, Any]) -> None:
    """Write the summary whole or not at all."""
    OUTPUT.mkdir(exist_ok=True)
    part = OUTPUT / "summary.json.part"
    part.write_text(json.dumps(summary, indent=2) + "\n")
    part.replace(OUTPUT / "summary.json")


def show(
    console: Console, cluster: Cluster, figures: dict[str, Any], summary: dict[str, Any]
) -> None:
    devices = cluster.devices()
    batch = sum(figures["local_batches"])
    table = Table(title=f"How a batch of {batch} samples is split (EMULATED devices)")
    for column in ("device", "type", "even", "optimal"):
        table.add_column(column, justify="right" if column in ("even", "optimal") else "left")
    for device, local in zip(devices, figures["local_batches"], strict=True):
        table.add_row(device.name, device.type.name, f"{batch / len(devices):.0f}", str(local))
    console.print(table)
    job = summary["jobs"][0]
    even, step = job["even_step_seconds"], job["step_seconds"]
    lines = Table(title="What it gains (EMULATED devices)", show_header=False)
    lines.add_row("even split, measured", f"{even * 1e3:.1f} ms a step")
    lines.add_row("optimal split, predicted", f"{job['predicted_step_seconds'] * 1e3:.1f} ms")
    lines.add_row("optimal split, measured", f"{step * 1e3:.1f} ms")
    lines.add_row("speed-up", f"[bold]{even / step:.2f} x[/]" + (" (VOID)" if job["void"] else ""))
    lines.add_row(
        "loss, first and last epoch", f"{job['loss']['first']:.3f}, {job['loss']['last']:.3f}"
    )
    lines.add_row("accuracy on unseen digits", f"{job['accuracy']:.1%}")
    console.print(lines)
    if job["void"]:
        console.print("VOID: over 2 % of the emulated steps were late; the machine is busy.")
    console.print(f"\n{summary['explained']}\n\nwritten: {OUTPUT / 'summary.json'}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
