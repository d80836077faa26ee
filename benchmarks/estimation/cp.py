"""CP (PARAFAC) of the tensor job x type x number of devices and nodes, as tensorly has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tensorly import cp_to_tensor
from tensorly.decomposition import parafac

from benchmarks.estimation.method import (
    Array,
    Measurements,
    Predictor,
    column_means,
    deviations,
    own_deviations,
)
from staves.estimation import Cell, History
from staves.estimation.filtering import CellSpace

RANK, ROUNDS, PENALTY, SEED = 3, 200, 0.01, 0


def cp(history: History, space: CellSpace) -> Predictor:
    """Return a predictor that decomposes anew with each new job as the tensor's last slice."""
    table = deviations(history, space)
    means = column_means(table)
    centred = table - means
    sizes = sorted({(cell.devices, cell.nodes) for cell in space.cells})
    columns = np.array([sizes.index((cell.devices, cell.nodes)) for cell in space.cells])
    shape = (len(table) + 1, len(space.types), len(sizes))

    def predict(measured: Measurements, asked: Sequence[Cell]) -> Array:
        cells, values, level = own_deviations(space, measured)
        rows = np.vstack([centred, np.full(len(space), np.nan)])
        rows[-1, cells] = values - means[cells]
        tensor = np.zeros(shape)
        tensor[:, space.type_index, columns] = np.nan_to_num(rows)
        mask = np.zeros(shape)
        mask[:, space.type_index, columns] = ~np.isnan(rows)
        found = parafac(
            tensor,
            rank=RANK,
            n_iter_max=ROUNDS,
            mask=mask,
            init="random",
            random_state=SEED,
            l2_reg=PENALTY,
        )
        last = np.asarray(cp_to_tensor(found))[-1, space.type_index, columns]
        everywhere: Array = space.start + level + means + last
        return everywhere[space.index(asked)]

    return predict
