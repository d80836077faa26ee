"""A slow link, measured and priced: `python -m benchmarks.links [--json] [--page FILE]`.

Two nodes with networks of their own are joined by a link that is shaped to 200 Mbit/s. It is
measured as `staves links` does; jobs learn on one node; from both, the steps on one node and on two
are predicted as the service's policies price them, and then measured. Needs root and Linux. A table
on standard error, and as Markdown in FILE; with `--json` the document on standard output.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import hand_out, run


def main() -> None:
    """Measure, and tell."""
    from benchmarks.links.judging import judged
    from benchmarks.links.measuring import CASES, measure
    from benchmarks.links.page import page, table, verdict
    from staves.errors import InputError

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabits", type=float, default=200.0, help="a second, of the link")
    parser.add_argument("--width", type=int, action="append", help="only models of that width")
    parser.add_argument("--batch", type=int, action="append", help="only batches of that size")
    parser.add_argument("--steps", type=int, default=40, help="measured in each place")
    parser.add_argument("--page", type=Path, help="write the tables there")
    parser.add_argument("--json", action="store_true", help="print the document")
    given = parser.parse_args()
    if not 0.1 <= given.megabits <= 1e5:
        raise InputError(f"--megabits: {given.megabits:g} is not from 0.1 to 100000")
    if given.steps < 1:
        raise InputError(f"--steps: {given.steps} is below 1")
    cases = [
        (width, batch)
        for width, batch in CASES
        if width in (given.width or [width]) and batch in (given.batch or [batch])
    ]
    if not cases:
        raise InputError("no case has that width and batch", hint=f"cases: {CASES}")
    found = measure(given.megabits, cases, given.steps)
    document = {"emulated": True, "steps": given.steps, **found, **judged(found["cases"])}
    print(table(document), verdict(document), sep="\n", file=sys.stderr)
    hand_out(document, page(document), given)


if __name__ == "__main__":
    run("benchmarks.links", main)
