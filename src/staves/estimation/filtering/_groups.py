"""Groups of jobs that behave alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def groups_of_alike(profiles: NDArray[np.float64], most: int) -> list[frozenset[int]]:
    """Return at most so many groups of rows of `profiles` (J, C), none of them empty.

    Centres are chosen one by one, each the farthest from all before it; every row goes to the
    nearest (Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985). The first
    centre is the row farthest from the mean of all.
    """
    if not len(profiles):
        return []
    centre = int(np.square(profiles - profiles.mean(axis=0)).sum(axis=1).argmax())
    nearest = np.full(len(profiles), np.inf)
    owner = np.zeros(len(profiles), dtype=np.int64)
    for group in range(min(most, len(profiles))):
        distance = np.square(profiles - profiles[centre]).sum(axis=1)
        closer = distance < nearest
        owner[closer], nearest[closer] = group, distance[closer]
        centre = int(nearest.argmax())
    return [frozenset(np.flatnonzero(owner == group).tolist()) for group in np.unique(owner)]
