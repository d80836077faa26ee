"""SVD++ (Koren, KDD '08), as scikit-surprise has it: the library that the source system names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from surprise import Dataset, Reader, SVDpp

from benchmarks.estimation.method import Array, Measurements, Predictor, deviations, own_deviations
from staves.estimation import Cell, History
from staves.estimation.filtering import CellSpace

FACTORS, EPOCHS, RATE, PENALTY, SEED = 3, 300, 0.01, 0.02, 0
_NEW = "new"


def svd_plus_plus(history: History, space: CellSpace) -> Predictor:
    """Return a predictor that trains anew with each new job's measurements among the ratings."""
    table = deviations(history, space)
    ratings = [
        (str(j), str(c), float(table[j, c]), None)
        for j, c in np.argwhere(~np.isnan(table)).tolist()
    ]

    def predict(measured: Measurements, asked: Sequence[Cell]) -> Array:
        cells, values, level = own_deviations(space, measured)
        own = [
            (_NEW, str(c), float(v), None)
            for c, v in zip(cells.tolist(), values.tolist(), strict=True)
        ]
        every = [rating for *_, rating, _ in [*ratings, *own]]
        reader = Reader(rating_scale=(min(every), max(every)))
        trained = SVDpp(
            n_factors=FACTORS, n_epochs=EPOCHS, lr_all=RATE, reg_all=PENALTY, random_state=SEED
        )
        trained.fit(Dataset(reader).construct_trainset([*ratings, *own]))
        index = space.index(asked)
        found = [trained.predict(_NEW, str(c), clip=False).est for c in index.tolist()]
        everywhere: Array = space.start[index] + level + np.array(found, dtype=np.float64)
        return everywhere

    return predict
