"""`python -m benchmarks.estimation --data DIR [--seeds N] [--json]`.

DIR holds Gavel's `gavel/simulation_throughputs.json.gz` and `throughput_long.csv.gz`, in which the
profiles of Sia and Pollux are. Jobs are new in turn; past jobs are seen at 60 % of their cells, new
ones at the probes that the filter chooses. Errors are those of the cells that were not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy loads: its threads spin

from benchmarks.estimation.judging import OWN, PROBES, judge, summary
from benchmarks.estimation.method import Method
from benchmarks.estimation.svd import fold_in
from benchmarks.estimation.tables import Split, splits

LIBRARIES = {
    "SVD++": ("surprise", "benchmarks.estimation.svdpp", "svd_plus_plus"),
    "CP": ("tensorly", "benchmarks.estimation.cp", "cp"),
}
GATES = {
    "gavel, leave a job out": {"median_percent": 10.0, "mean_percent": 16.0, "to_svd": 0.75},
    "sia, leave a model out": {"median_percent": 14.0},
}
INSIDE = (80.0, 97.0)
FASTEST = 0.005
JUDGED_AT = "6"  # probes


def methods() -> dict[str, Method]:
    """Return what the filter is compared with; says what is not installed."""
    found: dict[str, Method] = {"SVD fold-in": fold_in}
    for name, (library, module, function) in LIBRARIES.items():
        if find_spec(library) is None:
            say(f"{name} is left out: {library} is not installed (the extra `bench` has it)")
        else:
            found[name] = getattr(import_module(module), function)
    return found


def measure(data: Path, seeds: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """Return for each split what `summary` tells, and how it stands to the gates.

    Raises:
        StavesError: the tables are not there.
    """
    others = methods()
    result: dict[str, Any] = {"seeds": seeds, "splits": {}}
    for split in splits(data):
        if not only or split.name in only:
            result["splits"][split.name] = judged(split, range(seeds), others)
    return result


def judged(split: Split, seeds: Sequence[int], others: Mapping[str, Method]) -> dict[str, Any]:
    """Return what `summary` tells of a split, and how it stands to its gates."""
    founds = []
    for seed in seeds:
        founds.append(judge(split, seed, others))
        say(f"{split.name}: seed {seed} is done")
    told = summary(founds)
    own = told["methods"]["staves"][JUDGED_AT]
    inside = told["inside_percent"][JUDGED_AT]
    to_svd = {
        figure: own[figure]["median"] / told["methods"]["SVD fold-in"][JUDGED_AT][figure]["median"]
        for figure in ("median_percent", "mean_percent")
    }
    wanted = GATES.get(split.name, {})
    told["to_svd"] = to_svd
    told["holds"] = {
        name: max(to_svd.values()) <= bound if name == "to_svd" else own[name]["median"] <= bound
        for name, bound in wanted.items()
    } | {
        "inside": INSIDE[0] <= inside["median"] <= INSIDE[1],
        "one_job": told["predict_seconds"]["median"] < FASTEST,
    }
    return told


def table(told: Mapping[str, Any]) -> str:
    """Return a split's Markdown table: median and mean error by method and number of probes."""
    heads = ["error %, median / mean", *(f"{k} probes" for k in PROBES)]
    rows = [heads, ["---"] * len(heads)]
    ordered = [*OWN, *(name for name in told["methods"] if name not in OWN)]
    for name in ordered:
        cells = []
        for probes in PROBES:
            one = told["methods"][name][str(probes)]
            middle, mean = one["median_percent"]["median"], one["mean_percent"]["median"]
            cells.append(f"{middle:.1f} / {mean:.1f}")
        rows.append([name, *cells])
    inside = [told["inside_percent"][str(probes)]["median"] for probes in PROBES]
    rows.append(["inside the 90 % interval", *(f"{share:.0f} %" for share in inside)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def say(line: str) -> None:
    """Tell progress on standard error."""
    print(f"benchmarks: {line}", file=sys.stderr, flush=True)


def main() -> None:
    """Print the tables, or everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--seeds", type=int, default=5, help="masks of each split")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    result = measure(given.data, given.seeds)
    if given.json:
        print(json.dumps(result))
        return
    for name, told in result["splits"].items():
        one, fit = told["predict_seconds"]["median"], told["fit_seconds"]["median"]
        print(f"{name}\n{table(told)}")
        print(f"one new job {1e3 * one:.2f} ms, fit {fit:.2f} s")
        print(f"holds: {told['holds']}\n")


if __name__ == "__main__":
    main()
