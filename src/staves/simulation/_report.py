"""Pictures of runs, and one self-contained page with all of them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from staves.hardware import Cluster
from staves.reports import drawing, figure, png, table, write_page
from staves.simulation._intervals import over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ROWS = 200  # jobs of a Gantt chart that can be told apart
_STEPS = 400  # of a curve of utilisation


def write_report(runs: Sequence[dict[str, Any]], cluster: Cluster, folder: Path) -> Path:
    """Draw PNGs and `index.html`, which holds them all, into `folder`; return the page.

    One CDF of completion times and one of utilisation for all runs, and a Gantt chart for each.

    Args:
        runs: as `run` returned them.
        cluster: for its number of devices.
        folder: made where it is absent.

    Raises:
        StavesError: matplotlib is not installed, or the folder cannot be written.
    """
    pictures: dict[str, bytes] = {}
    with drawing():
        pictures["jct"] = png(_cdf(runs))
        pictures["utilisation"] = png(_utilisation(runs, cluster.total))
        for number, run in enumerate(runs):
            pictures[f"gantt-{number}-{run['policy']}"] = png(_gantt(run))
    return write_page(
        folder,
        title="Staves: simulation",
        heading=runs[0]["workload"] if runs else "",
        body=_summary(runs) + _means(runs),
        pictures=pictures,
    )


def _label(run: dict[str, Any]) -> str:
    return f"{run['policy']}, seed {run['seed']}"


def _cdf(runs: Sequence[dict[str, Any]]) -> Figure:
    picture = figure()
    axes = picture.subplots()
    for run in runs:
        times = sorted(j["jct_seconds"] / 3600 for j in run["jobs"] if j["jct_seconds"] is not None)
        share = np.arange(1, len(times) + 1) / len(run["jobs"])
        axes.step(times, share, where="post", label=_label(run))
    axes.set(xscale="log", xlabel="job completion time, hours", ylabel="share of jobs", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()
    return picture


def _utilisation(runs: Sequence[dict[str, Any]], devices: int) -> Figure:
    picture = figure()
    axes = picture.subplots()
    for run in runs:
        spans = [
            (s["since"], s["until"], sum(s["devices"].values()))
            for job in run["jobs"]
            for s in job["spans"]
        ]
        if not spans:
            continue
        edges = np.linspace(min(s[0] for s in spans), max(s[1] for s in spans), _STEPS + 1)
        held = np.zeros(_STEPS)
        for since, until, count in spans:
            held += count * np.diff(np.clip(edges, since, until))
        share = held / np.diff(edges) / devices
        axes.step(edges[:-1] / 3600, share, where="post", label=_label(run))
    axes.set(xlabel="hours", ylabel="share of devices held", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend()
    return picture


def _gantt(run: dict[str, Any]) -> Figure:
    """Draw a row for each job: its wait in grey, what it held by its main type, darker for more."""
    jobs = run["jobs"][:_MOST_ROWS]
    types = sorted({name for job in jobs for span in job["spans"] for name in span["devices"]})
    most = max((sum(s["devices"].values()) for job in jobs for s in job["spans"]), default=1)
    picture = figure(1.2 + 0.06 * max(20, len(jobs)))
    axes = picture.subplots()
    for row, job in enumerate(jobs):
        end = job["finished"] or max((s["until"] for s in job["spans"]), default=job["submitted"])
        wait = (job["submitted"] / 3600, (end - job["submitted"]) / 3600)
        axes.broken_barh([wait], (row, 0.9), color="0.9")
        for span in job["spans"]:
            held: dict[str, int] = span["devices"]
            main = max(sorted(held), key=held.__getitem__)
            shade = _shade(sum(held.values()), most)
            bar = (span["since"] / 3600, (span["until"] - span["since"]) / 3600)
            axes.broken_barh([bar], (row, 0.9), color=f"C{types.index(main)}", alpha=shade)
    handles = [axes.barh(0, 0, color=f"C{index}", label=name) for index, name in enumerate(types)]
    handles.append(axes.barh(0, 0, color="0.9", label="waits"))
    if most > 1:
        for devices, word in ((1, "pale: 1 device"), (most, f"dark: {most} devices")):
            handles.append(axes.barh(0, 0, color="0.3", alpha=_shade(devices, most), label=word))
    axes.legend(handles=handles, loc="upper right")
    axes.set(xlabel="hours", ylabel="job", ylim=(len(jobs), 0), title=_label(run))
    return picture


def _shade(devices: int, most: int) -> float:
    """Return how opaque the bar of a job with so many devices is."""
    return 0.35 + 0.65 * devices / most


_COLUMNS = {
    "finished": ("finished", 1),
    "average_jct_seconds": ("JCT, h", 3600),
    "p50_jct_seconds": ("p50, h", 3600),
    "p99_jct_seconds": ("p99, h", 3600),
    "makespan_seconds": ("makespan, h", 3600),
    "device_seconds": ("device-hours", 3600),
    "utilisation": ("utilisation", 1),
    "restarts": ("restarts", 1),
}


def _summary(runs: Sequence[dict[str, Any]]) -> str:
    rows = [
        [_label(run), *(_cell(run["summary"][key], unit) for key, (_, unit) in _COLUMNS.items())]
        for run in runs
    ]
    return table(["", *(name for name, _ in _COLUMNS.values())], rows)


def _means(runs: Sequence[dict[str, Any]]) -> str:
    """Return a line for each policy that ran with several seeds."""
    lines = []
    for one in over_seeds(runs):
        jct = one["average_jct_seconds"]
        if jct is not None:
            low, high = jct["interval"]
            lines.append(
                f"<p>{html.escape(one['policy'])}: mean JCT over {len(one['seeds'])} seeds"
                f" {jct['mean'] / 3600:.3f} h, 95 % interval {low / 3600:.3f} to"
                f" {high / 3600:.3f} h</p>"
            )
    return "".join(lines)


def _cell(value: float | None, unit: float) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) and unit == 1 else f"{value / unit:.3f}"
