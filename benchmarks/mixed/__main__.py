"""Mixed types, predicted and measured: `python -m benchmarks.mixed [--json] [--page FILE]`.

A job trains on two devices of each type alone, on emulated devices behind links of unlike speed.
From what it has learned there, and nothing else, the steps of mixes are predicted, as the service's
policies price them; then it is resized to each mix, and its steps are measured. A table on standard
error, and as Markdown in FILE; with `--json` the document on standard output.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import hand_out, run


def main() -> None:
    """Measure, and tell."""
    from benchmarks.mixed.judging import judged
    from benchmarks.mixed.measuring import BATCH, MIXES, measure
    from benchmarks.mixed.page import page, table, verdict

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cluster", action="append", choices=tuple(MIXES), help="of these only")
    parser.add_argument("--steps", type=int, default=60, help="measured of each mix")
    parser.add_argument("--page", type=Path, help="write the tables there")
    parser.add_argument("--json", action="store_true", help="print the document")
    given = parser.parse_args()
    cases = {name: measure(name, given.steps) for name in given.cluster or MIXES}
    about = {"emulated": True, "batch": BATCH, "steps": given.steps}
    document = {**about, "clusters": cases, **judged(cases)}
    print(table(document), verdict(document), sep="\n", file=sys.stderr)
    hand_out(document, page(document), given)


if __name__ == "__main__":
    run("benchmarks.mixed", main)
