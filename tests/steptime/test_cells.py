"""Cells: what is kept of measurements, and how old ones fade."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.steptime import Cell, Line, cells_of, fit_cells, merge, pool
from staves.steptime._cells import CELLS, KEPT_WEIGHT, MEMORY


def test_one_cell_a_batch() -> None:
    cells = cells_of([8, 4, 8, 8], [0.2, 0.1, 0.4, 0.3])
    assert [(c.batch, c.weight) for c in cells] == [(4, 1), (8, 3)]
    assert [c.seconds for c in cells] == pytest.approx([0.1, 0.3])
    assert cells[0].variance == 0


def test_wild_measurements_move_neither_mean_nor_variance() -> None:
    random = np.random.default_rng(0)
    seconds = 0.1 * (1 + 0.05 * random.standard_normal(200))
    (calm,) = cells_of([8] * 200, seconds)
    seconds[::8] *= 20
    (wild,) = cells_of([8] * 200, seconds)
    assert wild.seconds == pytest.approx(0.1, rel=0.02)
    assert np.sqrt(wild.variance) == pytest.approx(np.sqrt(calm.variance), rel=0.3)
    assert np.sqrt(calm.variance) == pytest.approx(0.005, rel=0.3)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(0.01, 1.0)), min_size=1, max_size=30),
    st.integers(0, 30),
)
def test_merging_parts_keeps_counts_and_means(measured: list[tuple[int, float]], cut: int) -> None:
    # Few enough to be remembered whole, but for what fades: half of it in 1000 measurements.
    def table(part: list[tuple[int, float]]) -> tuple[Cell, ...]:
        return cells_of([b for b, _ in part], [t for _, t in part])

    older, newer = measured[:cut], measured[cut:]
    merged = merge(table(older), table(newer))
    assert [c.batch for c in merged] == sorted({b for b, _ in measured})
    for cell in merged:
        count = sum(b == cell.batch for b, _ in measured)
        assert 0.97 * count <= cell.weight <= count + 1e-9
        parts = [c for c in (*table(older), *table(newer)) if c.batch == cell.batch]
        assert min(p.seconds for p in parts) - 1e-9 <= cell.seconds
        assert cell.seconds <= max(p.seconds for p in parts) + 1e-9


def test_new_measurements_displace_old_ones_of_their_batch_and_no_slope_is_forgotten() -> None:
    cells = cells_of([8] * 20 + [16] * 20, [0.1] * 20 + [0.2] * 20)
    for _ in range(100):
        cells = merge(cells, cells_of([16] * 50, [0.3] * 50))
    probe, current = cells
    assert (probe.batch, probe.weight) == (8, KEPT_WEIGHT)
    assert current.weight == MEMORY
    assert current.seconds == pytest.approx(0.3)


def test_a_table_stays_small_and_keeps_its_ends() -> None:
    cells: tuple[Cell, ...] = ()
    for batch in range(200, 0, -1):
        cells = merge(cells, cells_of([batch] * 10, [0.01 * batch] * 10))
    assert len(cells) == CELLS
    assert (cells[0].batch, cells[-1].batch) == (1, 200)
    line = fit_cells(cells).line
    assert (line.fixed, line.per_sample) == pytest.approx((0.0, 0.01), abs=1e-9)


def test_a_pool_is_all_devices_as_one() -> None:
    tables = [cells_of([8] * 10, [0.1] * 10), cells_of([8] * 10 + [16] * 5, [0.3] * 10 + [0.5] * 5)]
    first, second = pool(tables)
    assert first.seconds == pytest.approx(0.2, rel=0.01)
    assert second.batch == 16
    assert second.seconds == pytest.approx(0.5)
    assert fit_cells(pool(tables)).line != Line(0.0, 0.0)


@pytest.mark.parametrize(
    "numbers", [(-1, 1, 1, 0), (1, 0, 1, 0), (1, 1, -1, 0), (1, 1, np.nan, 0), (1, 1, 1, -1)]
)
def test_what_is_no_cell(numbers: tuple[float, float, float, float]) -> None:
    with pytest.raises(InputError, match="is none"):
        Cell(*numbers)
