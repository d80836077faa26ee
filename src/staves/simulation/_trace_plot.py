"""A picture of what a file holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from staves.errors import StavesError
from staves.simulation._availability import Availability
from staves.simulation._describe import demand
from staves.simulation._workload import Workload
from staves.simulation.readers import NodeList, Recognised, ThroughputTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE = 200  # stretches of a curve of demand
_MOST_LINES = 40  # jobs of a table that can be told apart


def write_plot(found: Recognised, path: Path) -> None:
    """Draw what a file holds into a PNG.

    Raises:
        StavesError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise StavesError("plots need matplotlib", hint="pip install 'staves[simulate]'") from None
    with mpl.rc_context(mpl.rcParamsDefault):
        figure = Figure(figsize=(9, 6 if isinstance(found.contents, Workload) else 4))
        figure.set_layout_engine("constrained")
        figure.suptitle(f"{found.contents.name}: {found.format.name}")
        contents = found.contents
        if isinstance(contents, Workload):
            above, below = figure.subplots(2, 2)
            _demand(above[0], contents)
            _arrivals(above[1], contents)
            _durations(below[0], contents)
            _sizes(below[1], contents)
        elif isinstance(contents, Availability):
            _available(figure.subplots(), contents)
        elif isinstance(contents, NodeList):
            _types(figure.subplots(), contents)
        else:
            _scaling(figure.subplots(), contents)
        figure.savefig(path, format="png", dpi=110, metadata={"Software": None})


def _demand(axes: Axes, workload: Workload) -> None:
    curve: dict[str, Any] = demand(workload.requests, _CURVE)
    hours = (np.arange(_CURVE) * curve["stretch_seconds"]) / 3600
    axes.step(hours, curve["devices"], where="post")
    axes.set(xlabel="hours", ylabel="devices wanted", title=curve["of"])
    axes.grid(alpha=0.3)


def _arrivals(axes: Axes, workload: Workload) -> None:
    hours = np.array([request.time for request in workload.requests]) / 3600
    axes.step(hours, np.arange(1, len(hours) + 1), where="post")
    axes.set(xlabel="hours", ylabel="jobs that have come", title="arrivals")
    axes.grid(alpha=0.3)


def _durations(axes: Axes, workload: Workload) -> None:
    seconds = sorted(r.seconds for r in workload.requests if r.seconds is not None)
    axes.set(xlabel="hours", ylabel="share of jobs", title="declared durations", ylim=(0, 1))
    if not seconds:
        axes.text(0.5, 0.5, "none declared", ha="center", transform=axes.transAxes)
        return
    hours = np.maximum(np.array(seconds), 1e-3) / 3600
    axes.step(hours, np.arange(1, len(hours) + 1) / len(hours), where="post")
    axes.set(xscale="log")
    axes.grid(alpha=0.3)


def _sizes(axes: Axes, workload: Workload) -> None:
    sizes, counts = np.unique([r.devices for r in workload.requests], return_counts=True)
    axes.bar([str(size) for size in sizes], counts)
    axes.set(xlabel="devices asked for", ylabel="jobs", title="sizes", yscale="log")


def _available(axes: Axes, trace: Availability) -> None:
    for name, counts in trace.devices.items():
        times = np.array([*trace.times, trace.times[-1] * 1.05 + 1]) / 3600
        axes.step(times, [*counts, counts[-1]], where="post", label=name)
    axes.set(xlabel="hours", ylabel="devices that are there", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()


def _types(axes: Axes, listed: NodeList) -> None:
    configuration = dict(listed.cluster.configuration)
    axes.bar(list(configuration), list(configuration.values()))
    axes.set(xlabel="device type", ylabel="devices")


def _scaling(axes: Axes, table: ThroughputTable) -> None:
    """Draw throughput over that of the fewest devices, for the jobs with most points."""
    lines: dict[tuple[str, str], dict[int, float]] = {}
    for cell in table.cells:
        line = lines.setdefault((cell.job, cell.device_type), {})
        line[cell.devices] = max(cell.throughput, line.get(cell.devices, 0.0))
    for line in sorted(lines.values(), key=len, reverse=True)[:_MOST_LINES]:
        sizes = sorted(line)
        axes.plot(sizes, [line[n] / line[sizes[0]] * sizes[0] for n in sizes], ".-", alpha=0.5)
    axes.set(xlabel="devices", ylabel="speed-up", xscale="log", yscale="log")
    axes.grid(alpha=0.3)
