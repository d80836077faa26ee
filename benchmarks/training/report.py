"""Medians over seeds, paired with plain DDP at the reference batch; and a table of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def summary(cells: Sequence[Row]) -> list[Row]:
    """Return a row for each workload, mix and system.

    `less_time` is 1 - seconds / seconds of DDP at B0, the median of the seeds' own ratios, with the
    least and the greatest; a system that missed the target with any seed has none.
    """
    rows = []
    for workload, mix in dict.fromkeys((cell["workload"], cell["mix"]) for cell in cells):
        own = [c for c in cells if (c["workload"], c["mix"]) == (workload, mix)]
        reference = f"ddp at {own[0]['reference']}"
        for name in own[0]["systems"]:
            runs = [(cell["systems"][name], cell["systems"][reference]) for cell in own]
            reached = sum(run["seconds"] is not None for run, _ in runs)
            row: Row = {"workload": workload, "mix": mix, "system": name, "seeds": len(own)}
            row |= {"reached": reached, "seconds": None, "less_time": None}
            if reached == len(own) and all(ddp["seconds"] is not None for _, ddp in runs):
                row["seconds"] = _spread([run["seconds"] for run, _ in runs])
                row["less_time"] = _spread([1 - r["seconds"] / d["seconds"] for r, d in runs])
            if "regret" in runs[0][0]:
                regrets = [run["regret"] for run, _ in runs]
                row["regret"] = statistics.median(r["whole"] for r in regrets)
                after = [r["after_ramp"] for r in regrets if r["after_ramp"] is not None]
                row["regret_after_ramp"] = statistics.median(after) if after else None
                row["last_batch"] = statistics.median(r["batches"]["last"] for r, _ in runs)
            rows.append(row)
        rows.append(_context(own))
    return rows


def _context(cells: Sequence[Row]) -> Row:
    """Return what the rows of one workload and mix are to be read beside."""
    first = cells[0]
    return {
        **{key: first[key] for key in ("workload", "mix", "reference", "bounds")},
        "critical_batch": {
            path["batch"]: statistics.median(c["trajectories"][i]["noise_scale"] for c in cells)
            for i, path in enumerate(first["trajectories"])
        },
        "balance": {
            batch: {
                name: {
                    part: statistics.median(c["balance"][batch][name][part] for c in cells)
                    for part in parts
                }
                for name, parts in systems.items()
            }
            for batch, systems in first["balance"].items()
        },
    }


def table(rows: Sequence[Row]) -> str:
    """Return the rows for people."""
    lines = []
    for row in rows:
        if "system" not in row:
            lines += [*_context_lines(row), ""]
            continue
        text = f"{row['workload']:8} {row['mix']:11} {row['system']:22}"
        if row["seconds"] is None:
            lines.append(f"{text} target reached with {row['reached']} of {row['seeds']} seeds")
            continue
        less = row["less_time"]
        low, middle, high = (100 * less[part] for part in ("least", "median", "most"))
        text += (
            f" {row['seconds']['median']:9.1f} s  {middle:5.1f} % less ({low:.1f} to {high:.1f})"
        )
        if "regret" in row:
            after = row["regret_after_ramp"]
            text += f"  batch {row['last_batch']:.0f}, regret {100 * row['regret']:.1f} %"
            text += "" if after is None else f", {100 * after:.1f} % after the ramp"
        lines.append(text)
    return "\n".join(lines)


def _context_lines(row: Row) -> list[str]:
    noise = ", ".join(f"{b}: {scale:.0f}" for b, scale in row["critical_batch"].items())
    lines = [f"  noise scale in runs at a fixed batch of {noise}"]
    for batch, systems in row["balance"].items():
        bound = row["bounds"][batch]
        shares = ", ".join(
            f"{name} {parts['second_half'] / bound:.3f} ({parts['whole'] / bound:.3f})"
            for name, parts in systems.items()
        )
        lines.append(
            f"  T_even / T_opt at {batch} {bound:.3f}; of it, in the second half (whole): {shares}"
        )
    return lines


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "median": statistics.median(values), "most": max(values)}
