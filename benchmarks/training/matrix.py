"""What each system takes to the target, in virtual time: `python -m benchmarks.training`.

Prints one JSON document; progress and verdicts go to standard error. Runs are kept in a folder, so
that what was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.training.cells import cell, names
from benchmarks.training.declared import (
    CORE_MIXES,
    CORE_WORKLOADS,
    MIXES,
    SEEDS,
    WORKLOADS,
    Workload,
)
from benchmarks.training.frozen import FROZEN_ON, fingerprint, unchanged
from benchmarks.training.judged import judge
from benchmarks.training.report import summary
from benchmarks.training.results import Results
from staves.errors import InputError, quoted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--workload", action="append", choices=[w.name for w in WORKLOADS])
    parser.add_argument("--mix", action="append", choices=[mix.name for mix in MIXES])
    parser.add_argument("--seed", action="append", type=int, choices=SEEDS)
    parser.add_argument("--full", action="store_true", help="all workloads and mixes")
    parser.add_argument(
        "--results", default="training-results", metavar="FOLDER", help="where runs are kept"
    )
    parser.add_argument(
        "--again", action="append", default=[], metavar="SYSTEM", help="whose runs are made anew"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    workloads = options.workload or [
        w.name for w in WORKLOADS if options.full or w.name in CORE_WORKLOADS
    ]
    mixes = options.mix or [m.name for m in MIXES if options.full or m.name in CORE_MIXES]
    seeds = list(dict.fromkeys(options.seed or SEEDS))
    chosen = [workload for workload in WORKLOADS if workload.name in workloads]
    _check_again(options.again, chosen)
    if not options.results:
        raise InputError("--results: no folder is named", hint="--results training-results")
    results = Results(Path(options.results), tuple(options.again))
    cells = [
        cell(results, workload, mix, seed)
        for seed in seeds
        for workload in chosen
        for mix in MIXES
        if mix.name in mixes
    ]
    rows = summary(cells)
    verdicts = judge(rows)
    for verdict in verdicts:
        value, held = verdict["value"], {True: "holds", False: "MISSED", None: "not told"}
        value = f"{value:.3f}" if isinstance(value, float) else value
        line = f"{held[verdict['held']]:9} {verdict['what']}: {value} ({verdict['wanted']})"
        print(line, file=sys.stderr)
    document = {
        "emulated": True,
        "declaration": {
            "frozen_on": FROZEN_ON,
            "fingerprint": fingerprint(),
            "unchanged": unchanged(),
        },
        "run": {"workloads": workloads, "mixes": mixes, "seeds": seeds},
        "cpu_seconds": results.cpu_seconds,
        "verdicts": verdicts,
        "summary": rows,
        "cells": cells,
    }
    print(json.dumps(document, indent=1))


def _check_again(again: Sequence[str], workloads: Sequence[Workload]) -> None:
    known = dict.fromkeys(name for workload in workloads for name in names(workload))
    for name in again:
        if name not in known:
            raise InputError(
                f"--again: {quoted(name)} is no system that is run here",
                hint="known: " + ", ".join(known),
            )
