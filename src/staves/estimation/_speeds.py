"""How fast device types are beside each other, from jobs that have run on several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from staves.estimation._profile import JobProfile


def relative_speeds(
    profiles: Iterable[JobProfile], priors: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the speed of one device of each type that some job has run on beside another.

    For every two types: the median, over the jobs that have run on both, of the ratio of their
    compute times at the job's local batch, total batch over world size. All pairs are then joined
    by least squares in the logarithm, weighted by their number of jobs. Types that no chain of
    jobs joins have no ratio; the geometric mean of each chain is 1, as is the speed of a type that
    is absent.

    Args:
        profiles: of any jobs.
        priors: guesses for types on which none of them has run, in any unit, such as peak
            throughput; their geometric mean is taken as that of the measured types.
    """
    ratios: dict[tuple[str, str], list[float]] = {}
    for profile in profiles:
        local = profile.batch / max(1, profile.world_size)
        seconds = {
            name: forward.seconds(local) + backward.seconds(local)
            for name, (forward, backward) in profile.lines.items()
        }
        timed = sorted(name for name, value in seconds.items() if value > 0)
        for one, other in combinations(timed, 2):
            ratios.setdefault((one, other), []).append(math.log(seconds[other] / seconds[one]))
    measured = _joined(ratios)
    if not priors:
        return measured
    both = [
        math.log(priors[name]) - math.log(measured[name])
        for name in measured.keys() & priors.keys()
    ]
    every = [math.log(value) for value in priors.values()]
    unit = fmean(both or every)
    return {name: value / math.exp(unit) for name, value in priors.items()} | measured


def _joined(ratios: Mapping[tuple[str, str], list[float]]) -> dict[str, float]:
    """Return the speeds that fit the logarithms of ratios best."""
    names = sorted({name for pair in ratios for name in pair})
    if not names:
        return {}
    matrix = np.zeros((len(ratios), len(names)))
    target = np.zeros(len(ratios))
    for row, ((one, other), logs) in enumerate(ratios.items()):
        weight = math.sqrt(len(logs))
        matrix[row, names.index(one)], matrix[row, names.index(other)] = weight, -weight
        target[row] = weight * median(logs)
    logs_of, *_ = np.linalg.lstsq(matrix, target)  # the shortest solution: mean 0 in each chain
    return {name: float(math.exp(value)) for name, value in zip(names, logs_of, strict=True)}
