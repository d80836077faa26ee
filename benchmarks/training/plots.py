"""Two figures: the time of every run beside DDP's at B0, and where the gain comes from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.training.report import OURS, Row

_NAMES = {
    OURS: "ours, adaptive",
    "oracle adaptive": "oracle, adaptive",
    "lines adaptive": "lines + adaptive",
    "proportional adaptive": "proportional + adaptive",
    "adaptdl-like": "AdaptDL-like",
}
_TICKS = (0.1, 0.2, 0.3, 0.5, 1.0)


def draw(rows: Sequence[Row], folder: Path) -> None:
    """Write the figures into the folder."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, figure in (("times", _times(plt, rows)), ("parts", _parts(plt, rows))):
        figure.savefig(folder / f"training-benchmark-{name}.png", dpi=90, bbox_inches="tight")
        plt.close(figure)


def _times(plt: Any, rows: Sequence[Row]) -> Any:
    columns = min(3, len(rows))
    lines = -(-len(rows) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4.2 * columns, 3 * lines), squeeze=False)
    for axis, row in zip(axes.flat, rows, strict=False):
        reference = row["reference"]
        systems = {
            f"DDP at best ({row['ddp_best']})": f"ddp at {row['ddp_best']}",
            "ours, fixed": f"ours at {reference}",
            **{label: name for name, label in reversed(_NAMES.items())},
        }
        for place, name in enumerate(systems.values()):
            less = row["systems"].get(name, {}).get("less_time_than_ddp")
            if less is None:
                at = {"transform": axis.get_yaxis_transform()}
                axis.text(0.03, place, "target missed", va="center", fontsize=7, **at)
                continue
            low, middle, high = (1 - less[part] for part in ("most", "median", "least"))
            axis.plot([low, high], [place, place], color="0.6", linewidth=2)
            axis.plot(middle, place, "o", color="C3" if name == OURS else "C0")
        axis.axvline(1, color="0.8", linestyle=":")
        axis.set_xscale("log")
        axis.set_xlim(0.06, 1.4)
        axis.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
        axis.minorticks_off()
        axis.set_ylim(-0.5, len(systems) - 0.5)
        axis.set_yticks(range(len(systems)), list(systems), fontsize=7)
        axis.set_title(f"{row['workload']} on {row['mix']}", fontsize=9)
        axis.tick_params(axis="x", labelsize=7)
    for axis in list(axes.flat)[len(rows) :]:
        axis.set_visible(False)
    figure.suptitle("Seconds to the target beside DDP at B0 (median, least, greatest)", fontsize=10)
    figure.tight_layout()
    return figure


def _parts(plt: Any, rows: Sequence[Row]) -> Any:
    size = (8, 0.7 * len(rows) + 1.2)
    figure, axis = plt.subplots(figsize=size, layout="constrained")
    parts = {
        "load balance alone": "ours at {}",
        "adaptive batch alone": "adaptdl-like",
        "both": OURS,
    }
    for shift, (label, name) in enumerate(parts.items()):
        systems = [row["systems"][name.format(row["reference"])] for row in rows]
        found = [system["less_time_than_ddp"] for system in systems]
        widths = [0 if each is None else 100 * each["median"] for each in found]
        places = [place + 0.25 * (shift - 1) for place in range(len(rows))]
        axis.barh(places, widths, height=0.22, label=label, color=("C0", "C1", "C3")[shift])
    axis.axvline(85, color="0.5", linestyle=":", label="the paper's 85 %")
    axis.set_yticks(range(len(rows)), [f"{r['workload']} on {r['mix']}" for r in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("% less time than DDP at B0")
    figure.legend(fontsize=7, loc="outside upper center", ncols=4)
    return figure
