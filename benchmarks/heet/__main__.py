"""Heet beside others, part by part: `python -m benchmarks.heet --data DIR [--page FILE] [--json]`.

DIR holds `pollux/traces` and `NO-LICENCE-STATED/sia/{traces,workloads}`, as their authors released
them. What may be tuned was tuned on the first two Philly and Helios workloads; all the others are
reported. Tables on standard error, and as Markdown in FILE; with `--json` the document, every ratio
with its interval, on standard output. With `--kept RUNS` every run's summary is kept there as a
line of JSON once it is done; what is there already is not run again, whatever has changed since.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy loads: its threads spin

from benchmarks.field import TRACES
from benchmarks.heet.measuring import PARTS
from benchmarks.heet.page import page, sections
from benchmarks.heet.runs import Runs
from benchmarks.heet.workloads import Workloads


def main() -> None:
    """Measure, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("--files", type=int, help="reported workloads of each trace at most")
    parser.add_argument(
        "--trace", action="append", choices=tuple(TRACES), help="of these traces only"
    )
    parser.add_argument(
        "--part",
        action="append",
        metavar="NAME[=FILES]",
        type=_part,
        help=f"only these parts, of {', '.join(PARTS)}; each with its own --files",
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kept", type=Path, help="keep the runs there, and go on from them")
    parser.add_argument("--page", type=Path, help="write the tables there")
    parser.add_argument("--json", action="store_true", help="print the document")
    given = parser.parse_args()
    there = Workloads(given.data)
    names = there.reported(given.files, given.trace)
    runs = Runs(given.kept, given.processes)
    parts = dict(given.part or [(part, None) for part in PARTS])
    document = {
        "command": _command(given),
        "reported": names,
        "at_hand": len(there.reported()),
        "parts": {
            part: _measured(part, runs, there, there.reported(files or given.files, given.trace))
            for part, files in parts.items()
        },
    }
    for section in sections(document):
        print(f"{section}\n", file=sys.stderr)
    if given.page is not None:
        given.page.write_text(page(document), encoding="utf-8")
    if given.json:
        print(json.dumps(document))


def _part(text: str) -> tuple[str, int | None]:
    name, _, files = text.partition("=")
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"no part {name!r}: one of {', '.join(PARTS)}")
    return name, int(files) if files else None


def _measured(part: str, runs: Runs, there: Workloads, names: Sequence[str]) -> dict[str, Any]:
    return {"workloads": list(names), **PARTS[part](runs, there, names)}


def _command(given: argparse.Namespace) -> str:
    """Return what decides the figures, of what was asked for."""
    words = ["python -m benchmarks.heet --data DIR"]
    words += [f"--files {given.files}"] if given.files else []
    words += [f"--trace {trace}" for trace in given.trace or ()]
    for part, files in given.part or ():
        words.append(f"--part {part}={files}" if files else f"--part {part}")
    words += [f"--page {given.page}"] if given.page else []
    return " ".join(words)


if __name__ == "__main__":
    main()
