"""The page and its plots, from results: `python -m benchmarks.training.page RESULTS.json docs`.

RESULTS.json is what `python -m benchmarks.training` has printed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import run
from benchmarks.training.declared import CORE_MIXES, CORE_WORKLOADS, MIXES, SEEDS, WORKLOADS
from benchmarks.training.judged import of_bound
from benchmarks.training.plots import draw
from benchmarks.training.report import BESIDE, OURS, RIVALS, Row
from staves.errors import InputError

PAPER = {"ddp": 0.85, "adaptdl": 0.52}
"""Less time than plain DDP and than AdaptDL, at most, as Cannikin's abstract has it."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.page")
    parser.add_argument("results", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--partial", action="store_true", help="not of the whole core matrix")
    options = parser.parse_args()
    document = _read(options.results)
    if not options.partial:
        _whole(document, options.results)
    words = (Path(__file__).parent / "page.md").read_text()
    for name, text in tables(document).items():
        words = words.replace("{{" + name + "}}", text)
    (options.folder / "training-benchmark.md").write_text(words)
    about = ("workload", "mix", "seed", "cpu_seconds")
    cells = [{key: cell[key] for key in about} for cell in document["cells"]]
    kept = {**document, "cells": cells}  # all that this page is made of
    path = options.folder / "training-benchmark.json"
    path.write_text(json.dumps(kept, indent=1) + "\n")
    draw(document["summary"], options.folder)


def _read(path: Path) -> dict[str, Any]:
    """Return the results.

    Raises:
        InputError: it cannot be read, or holds none.
    """
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}", hint="what the benchmark printed") from error
    if not isinstance(document, dict) or not document.get("summary"):
        raise InputError(f"{path}: holds no results", hint="what the benchmark printed")
    return document


def _whole(document: dict[str, Any], path: Path) -> None:
    """Refuse what is not what the page's words are of.

    Raises:
        InputError: cells of the core matrix are missing, or the declaration has changed since.
    """
    ran = document["run"]
    needed = {"workloads": CORE_WORKLOADS, "mixes": CORE_MIXES, "seeds": SEEDS}
    missing = [each for part, names in needed.items() for each in names if each not in ran[part]]
    if missing:
        without = ", ".join(map(str, missing))
        raise InputError(f"{path}: is without {without}", hint="--partial writes it all the same")
    if not document["declaration"]["unchanged"]:
        raise InputError(f"{path}: what is declared has changed since", hint="run it anew")


def tables(document: dict[str, Any]) -> dict[str, str]:
    """Return what is filled into the page's words, by name."""
    rows: list[Row] = document["summary"]
    return {
        "run": _run(document),
        "command": _command(document["run"]),
        "frozen": document["declaration"]["frozen_on"],
        "verdicts": _verdicts(document["verdicts"]),
        "times": _times(rows),
        "beside": _beside(rows),
        "systems": _systems(rows),
        "balance": _balance(rows),
        "regret": _regret(rows),
        "apart": _apart(rows),
        "declared": _declared(rows),
    }


def _run(document: dict[str, Any]) -> str:
    ran, cells = document["run"], document["cells"]
    core = [c for c in cells if c["workload"] in CORE_WORKLOADS and c["mix"] in CORE_MIXES]
    whole = set(ran["workloads"]) >= set(CORE_WORKLOADS) and set(ran["mixes"]) >= set(CORE_MIXES)
    minutes = [sum(c["cpu_seconds"] for c in of) / 60 for of in (cells, core)]
    name = "the core matrix" if whole else "the part of the core matrix that was run"
    return (
        f"Run: workloads {', '.join(ran['workloads'])}; mixes {', '.join(ran['mixes'])}; seeds"
        f" {', '.join(str(seed) for seed in ran['seeds'])}: {len(cells)} cells of a workload, a mix"
        f" and a seed, {minutes[0]:.0f} CPU-minutes on one core; {name} ({', '.join(CORE_MIXES)})"
        f" took {minutes[1]:.0f} of them."
    )


def _command(ran: dict[str, Any]) -> str:
    """Return the command that makes the results: it is told of what differs from its defaults."""
    flags = []
    usual = {"workloads": CORE_WORKLOADS, "mixes": CORE_MIXES, "seeds": SEEDS}
    for flag, name in (("--workload", "workloads"), ("--mix", "mixes"), ("--seed", "seeds")):
        if set(ran[name]) != set(usual[name]):
            flags += [f"{flag} {each}" for each in ran[name]]
    return " ".join(["python -m benchmarks.training", *flags])


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    ruled = ["|" + "---|" * len(head)]
    return "\n".join(["| " + " | ".join(line) + " |" for line in [head]] + ruled) + "".join(
        "\n| " + " | ".join(line) + " |" for line in lines
    )


def _verdicts(verdicts: Sequence[Row]) -> str:
    held = {True: "holds", False: "**missed**", None: "not run"}
    lines = []
    # Bad news first.
    for verdict in sorted(verdicts, key=lambda v: (v["held"] is not False, v["held"] is not None)):
        value = verdict["value"]
        text = f"{100 * value:.1f} %" if isinstance(value, float) else str(value or "-")
        lines.append([held[verdict["held"]], verdict["what"], text, verdict["wanted"]])
    return _table(["", "what", "measured", "wanted"], lines)


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if math.isfinite(value) else "target missed"


def _share(found: Row | None) -> str:
    if found is None:
        return "-"
    low, middle, high = (100 * found[part] for part in ("least", "median", "most"))
    return f"{middle:.0f} % ({low:.0f} to {high:.0f})"


def _times(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        less, reference = row["less_time"], f"ddp at {row['reference']}"
        rivals = [
            reference,
            f"ddp at {row['ddp_largest_efficient']}",
            f"ddp at {row['ddp_best']}",
            *RIVALS,
            *BESIDE,
        ]
        cells = [_share(less.get(rival)) for rival in rivals]
        cells[1] += f" [{row['ddp_largest_efficient']}]"
        cells[2] += f" [{row['ddp_best']}]"
        lines.append([row["workload"], row["mix"], *cells])
    head = ["workload", "mix", "DDP at B0", "DDP, largest efficient", "DDP at its best"]
    return _table([*head, "AdaptDL-like", "proportional + adaptive", "lines + adaptive"], lines)


def _systems(rows: Sequence[Row]) -> str:
    mixes = list(dict.fromkeys(row["mix"] for row in rows))
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = {row["mix"]: row for row in rows if row["workload"] == workload}
        for name in next(iter(own.values()))["systems"]:
            cells = [_seconds(own[mix], name) if mix in own else "not run" for mix in mixes]
            lines.append([workload, name, *cells])
    return _table(["workload", "system", *mixes], lines)


def _seconds(row: Row, name: str) -> str:
    system = row["systems"][name]
    seconds = system["seconds"]
    if seconds is None:
        return f"reached with {system['reached']} of {row['seeds']} seeds"
    return f"{seconds['median']:.0f} ({seconds['least']:.0f} to {seconds['most']:.0f})"


def _beside(rows: Sequence[Row]) -> str:
    rivals: dict[str, Callable[[Row], str]] = {
        "DDP at B0": lambda row: f"ddp at {row['reference']}",
        "DDP at its largest efficient batch": lambda row: f"ddp at {row['ddp_largest_efficient']}",
        "DDP at its best fixed batch, in hindsight": lambda row: f"ddp at {row['ddp_best']}",
        "AdaptDL-like": lambda row: "adaptdl-like",
        "proportional + adaptive": lambda row: "proportional adaptive",
        "lines + adaptive": lambda row: "lines adaptive",
    }
    paper = {"DDP at B0": PAPER["ddp"], "AdaptDL-like": PAPER["adaptdl"]}
    lines = []
    for rival, name in rivals.items():
        found = [row["less_time"].get(name(row)) for row in rows]
        medians = [-math.inf if each is None else each["median"] for each in found]
        core = [m for m, row in zip(medians, rows, strict=True) if row["mix"] in CORE_MIXES]
        of = (statistics.median(core), statistics.median(medians), min(medians), max(medians))
        faster = [row["faster_beyond_noise"].get(name(row)) for row in rows]
        told = "-" if None in faster else f"{sum(map(bool, faster))} of {len(faster)}"
        most = f"{100 * paper[rival]:.0f} %" if rival in paper else "-"
        lines.append([rival, *map(_percent, of), told, most])
    head = ["ours, adaptive, against", f"median of {len(core)} core cells"]
    head += [f"of all {len(rows)}", "worst cell", "best cell", "faster beyond noise"]
    return _table([*head, "at most, in Cannikin's abstract"], lines)


def _balance(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        for batch in row["balance"]:
            bound = row["bounds"][batch if batch in row["bounds"] else int(batch)]
            shares = [
                f"{100 * row['balance'][batch][name]['second_half'] / bound:.1f} %"
                f" ({100 * row['balance'][batch][name]['whole'] / bound:.1f})"
                for name in ("proportional", "lb-bsp", "ours")
            ]
            lines.append([row["workload"], row["mix"], batch, f"{bound:.2f}", *shares])
    head = ["workload", "mix", "batch", "T_even / T_opt", "proportional", "LB-BSP", "ours"]
    return _table(head, lines)


def _regret(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        for name in (OURS, *RIVALS, *BESIDE, "oracle adaptive"):
            of = row["systems"][name]
            cells = [
                "-" if of[part] is None else f"{100 * of[part]['median']:.1f} %"
                for part in ("regret", "regret_after_ramp")
            ]
            figures = [f"{of[part]:.0f}" if of[part] else "-" for part in ("last_batch", "steps")]
            lines.append([row["workload"], row["mix"], name, *cells, *figures])
    head = ["workload", "mix", "system", "regret, whole run", "after the ramp", "last batch"]
    return _table([*head, "steps"], lines)


def _apart(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        reference, systems = row["reference"], row["systems"]
        parts = (f"ours at {reference}", "adaptdl-like", "proportional adaptive", OURS)
        shares = [_share(systems[name]["less_time_than_ddp"]) for name in parts]
        ceiling = f"{100 * row['ceiling']:.0f} %"
        lines.append(
            [
                row["workload"],
                row["mix"],
                *shares,
                _share(row["less_time"]["adaptdl-like"]),
                ceiling,
            ]
        )
    head = ["workload", "mix", "load balance alone", "adaptive batch alone"]
    head += ["proportional + adaptive", "ours, both", "ours against AdaptDL-like", "ceiling of it"]
    return _table(head, lines)


def _declared(rows: Sequence[Row]) -> str:
    lines = []
    for workload in WORKLOADS:
        own = [row for row in rows if row["workload"] == workload.name]
        scales = own[0]["noise_scale"] if own else {}
        critical = next(iter(scales.values()), None)
        lines.append(
            [
                workload.name,
                f"{workload.profile}, {workload.gradient_bytes / 1e6:.0f} MB",
                f"{workload.reference}: {workload.source}",
                "not run" if critical is None else f"{critical / workload.reference:.0f} B0",
                f"{workload.critical_of_original:.0f} B0",
                f"{workload.learning_rate:g}",
                f"{workload.target:g}",
            ]
        )
    head = ["workload", "times and gradient of", "B0, and whose", "critical batch, measured"]
    head += ["of the original", "learning rate", "target loss"]
    mixes = "; ".join(f"{mix.name} ({mix.describe()})" for mix in MIXES)
    mixes = mixes.replace("at a 3th", "at a third of its speed")  # declared.py is sealed
    return _table(head, lines) + f"\n\nMixes: {mixes}."


__all__ = ["PAPER", "main", "of_bound", "tables"]

if __name__ == "__main__":
    run("benchmarks.training.page", main)
