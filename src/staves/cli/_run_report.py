"""The page of `staves run --report`: what happened over the steps of a run."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from staves.reports import drawing, figure, png, table, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EMULATED = "EMULATED devices: compute durations are declared; the rest is real"


def write_run_report(
    history: Mapping[str, Any], figures: Mapping[str, Any], folder: Path, *, name: str
) -> Path:
    """Draw a run's history into `folder`, and return its page.

    Args:
        history: as `run.report()` holds it.
        figures: as `staves run --json` prints them.
        folder: made where it is absent.
        name: of the run.

    Raises:
        StavesError: matplotlib is not installed, or the folder cannot be written.
    """
    rows = [{**row, **history["settings"][row["setting"]]} for row in history["rows"]]
    plots: dict[str, Callable[[Axes, Sequence[dict[str, Any]]], None]] = {
        "split": _split,
        "step-time": _step_time,
        "idle-share": _idle,
        "total-batch": _batch,
    }
    if any(row["noise_scale"] is not None for row in rows):  # the batch adapts
        plots |= {"noise-scale": _noise_scale}
    plots |= {"goodput": _goodput}
    pictures = {}
    with drawing():
        for each, plot in plots.items():
            picture = figure()
            axes = picture.subplots()
            plot(axes, rows)
            if axes.lines or axes.collections:
                axes.legend(loc="best", fontsize="small")
            else:
                axes.text(0.5, 0.5, "not known in this run", ha="center", va="center")
            axes.set(xlabel="step", title=EMULATED if figures["emulated"] else None)
            axes.grid(alpha=0.3)
            pictures[each] = png(picture)
    return write_page(
        folder,
        title=f"Staves: {name}",
        heading=name,
        body=_summary(figures),
        pictures=pictures,
    )


def _lines(
    axes: Axes, rows: Sequence[dict[str, Any]], label: str, value: Callable[[dict[str, Any]], Any]
) -> None:
    """Draw a step line of what is known; nothing where it is not known at all."""
    values = [value(row) for row in rows]
    if all(each is None for each in values):
        return
    steps = [row["step"] for row in rows]
    # One known value has no line: a point shows it.
    marker = "." if sum(each is not None for each in values) == 1 else ""
    known = [float("nan") if each is None else each for each in values]
    axes.step(steps, known, where="pre", label=label, marker=marker)


def _of_device(column: str, device: str) -> Callable[[dict[str, Any]], Any]:
    def value(row: dict[str, Any]) -> Any:
        if device not in row["devices"] or row[column] is None:
            return None
        return row[column][row["devices"].index(device)]

    return value


def _devices(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(device for row in rows for device in row["devices"]))


def _split(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    for device in _devices(rows):
        _lines(axes, rows, device, _of_device("local_batches", device))
    axes.set(ylabel="samples of each step", ylim=(0, None))


def _step_time(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    columns = {
        "measured": "step_seconds",
        "predicted": "predicted_seconds",
        "even split, predicted": "even_seconds",
    }
    for label, column in columns.items():

        def value(row: dict[str, Any], column: str = column) -> Any:
            return None if row[column] is None else 1e3 * row[column]

        _lines(axes, rows, label, value)
    axes.set(ylabel="step, ms", ylim=(0, None))


def _idle(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    for device in _devices(rows):
        _lines(axes, rows, device, _of_device("idle_share", device))
    axes.set(ylabel="idle share of the step (fitted model)", ylim=(-0.02, 1))


def _batch(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    _lines(axes, rows, "total batch", lambda row: sum(row["local_batches"]))
    axes.set(ylabel="samples", ylim=(0, None))


def _noise_scale(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    _lines(axes, rows, "gradient noise scale", lambda row: row["noise_scale"])
    axes.set(ylabel="samples", ylim=(0, None))


def _goodput(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    _lines(axes, rows, "throughput", _throughput)
    _lines(axes, rows, "goodput (throughput x statistical efficiency)", lambda r: r["goodput"])
    axes.set(ylabel="samples a second", ylim=(0, None))


def _throughput(row: dict[str, Any]) -> float | None:
    return sum(row["local_batches"]) / row["step_seconds"] if row["step_seconds"] else None


def _summary(figures: Mapping[str, Any]) -> str:
    """Return the figures of the whole run as HTML."""
    step, even = figures["step_seconds"], figures["even_step_seconds"]
    predicted = figures["predicted_step_seconds"]
    loss = figures.get("loss") or {}
    rows = [
        ("steps", str(figures["steps"])),
        ("samples", str(figures["samples"])),
        ("epochs", str(figures["epochs"])),
        ("rescales", str(figures["rescales"])),
        ("last split", ", ".join(map(str, figures["local_batches"]))),
    ]
    if step is not None:
        rows.append(("step, median", _ms(step["p50"])))
    if predicted is not None:
        rows.append(("step, predicted", _ms(predicted)))
    if even is not None:
        rows.append((f"step with an even split ({figures['even_step_source']})", _ms(even)))
    if step is not None and even is not None and not figures.get("void"):
        rows.append(("against an even split", f"{even / step['p50']:.2f} x as fast"))
    rows += [(f"{end} epoch's loss", f"{loss[end]:.4g}") for end in loss if _number(loss[end])]
    rows += [(name, f"{value:.4g}") for name, value in figures.get("metrics", {}).items()]
    label = f"<p><strong>{html.escape(EMULATED)}</strong></p>" if figures["emulated"] else ""
    if figures.get("void"):
        label += "<p><strong>VOID: the machine was too busy for its declared durations</strong></p>"
    return label + table(["", ""], rows)


def _number(value: object) -> bool:
    return isinstance(value, float)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
