"""What each system takes to the target, in virtual time: `python -m benchmarks.training`.

Prints one JSON document; a table and progress go to standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import torch

from benchmarks.training.cells import cell
from benchmarks.training.declared import MIXES, SEEDS, WORKLOADS
from benchmarks.training.report import summary, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    names = [mix.name for mix in MIXES]
    parser.add_argument("--mix", action="append", choices=names, help="default: 1:0.45:0.2")
    parser.add_argument(
        "--seed", action="append", type=int, choices=SEEDS, help="default: all declared ones"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    cells = []
    for workload in WORKLOADS:
        for mix in [mix for mix in MIXES if mix.name in (options.mix or ["1:0.45:0.2"])]:
            for seed in options.seed or SEEDS:
                about = f"{workload.name} on {mix.name}, seed {seed} ..."
                print(f"benchmarks: {about}", file=sys.stderr, flush=True)
                cells.append(cell(workload, mix, seed))
    summaries = summary(cells)
    print(table(summaries), file=sys.stderr)
    cpu = time.process_time() - started
    document = {"emulated": True, "cpu_seconds": cpu, "summary": summaries, "cells": cells}
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
