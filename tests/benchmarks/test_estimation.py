"""The estimator on the public tables: what `python -m benchmarks.estimation` shows, on one mask."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from benchmarks.estimation.__main__ import judged
from benchmarks.estimation.method import Method
from benchmarks.estimation.svd import fold_in
from benchmarks.estimation.tables import LEAST_CELLS, Split, splits

from staves.estimation import Cell, History, Measured
from staves.estimation.filtering import CellSpace

DATA = Path(__file__).parents[2].parent / "shared" / "data"

with_tables = pytest.mark.skipif(
    not (DATA / "gavel").is_dir(), reason=f"the public tables are not in {DATA}"
)


def split_of(name: str) -> Split:
    return {split.name: split for split in splits(DATA)}[name]


@with_tables
def test_the_tables_are_those_that_are_known() -> None:
    gavel = split_of("gavel, leave a job out")
    assert len(gavel.groups) == len(gavel.table) == 18
    assert all(len(cells) >= LEAST_CELLS for cells in gavel.table.values())
    assert max(len(cells) for cells in gavel.table.values()) == 21
    sia = split_of("sia, leave a model out")
    assert set(sia.groups) == {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}


@with_tables
@pytest.mark.parametrize("name", ["gavel, leave a job out", "sia, leave a model out"])
def test_one_mask_holds_the_gates(name: str) -> None:
    told = judged(split_of(name), [0], {"SVD fold-in": fold_in})
    holds = told["holds"]
    del holds["one_job"]  # a time
    assert holds == dict.fromkeys(holds, True)


def test_the_baselines_recover_a_table_of_low_rank() -> None:
    """Jobs are of two kinds: a new one of either is known from some of its cells."""
    kinds = ("k80", "v100")
    cells = [Cell(kind, n, m) for kind in kinds for n in (1, 2, 4, 8) for m in sorted({1, n})]
    space = CellSpace(cells)
    across = np.array([cell.nodes > 1 for cell in space.cells])
    rng = np.random.default_rng(0)

    def values(burden: float) -> dict[Cell, Measured]:
        found = space.start + rng.normal() - burden * across * np.log2(space.devices)
        return {
            cell: Measured(float(value)) for cell, value in zip(space.cells, found, strict=True)
        }

    history = History({f"job-{j}": values(0.1 if j % 2 else 0.5) for j in range(10)})
    baselines: dict[str, Method] = {"SVD": fold_in}
    if find_spec("surprise") is not None:
        from benchmarks.estimation.svdpp import svd_plus_plus

        baselines["SVD++"] = svd_plus_plus
    if find_spec("tensorly") is not None:
        from benchmarks.estimation.cp import cp

        baselines["CP"] = cp
    for name, learn in baselines.items():
        predict = learn(history, space)
        for burden in (0.1, 0.5):
            truth = values(burden)
            seen = [cell for cell in cells if cell.devices in (1, 2, 8)]
            measured = {cell: truth[cell] for cell in seen}
            asked = [cell for cell in cells if cell not in measured]
            expected = np.array([truth[cell].log_throughput for cell in asked])
            error = np.abs(predict(measured, asked) - expected)
            assert np.median(error) < 0.15, name
