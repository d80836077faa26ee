"""A seeded workload of the product's own applications."""

from __future__ import annotations

import numpy as np

from staves.simulation._application import Application
from staves.simulation._workload import Request, Workload

HOURS = 8.0
"""Within which the jobs come, as in the published workloads."""

_SHARES = {
    "image-small": 0.4,
    "speech": 0.2,
    "recommendation": 0.2,
    "language": 0.15,
    "image-large": 0.05,
}
_DEVICES = (1, 2, 4, 8)
_DEVICE_SHARES = (0.4, 0.25, 0.25, 0.1)


def generate(jobs: int, applications: dict[str, Application], seed: int) -> Workload:
    """Return `jobs` jobs that come independently of each other within `HOURS`.

    Args:
        jobs: how many, at least 1.
        applications: those of `synthetic_applications`.
        seed: of all that is drawn.
    """
    draw = np.random.default_rng([seed, jobs])
    times = np.sort(draw.uniform(0, HOURS * 3600, jobs)).round(3)
    names = draw.choice(list(_SHARES), jobs, p=list(_SHARES.values()))
    devices = draw.choice(_DEVICES, jobs, p=_DEVICE_SHARES)
    requests = []
    for index, (time, name, count) in enumerate(
        zip(times.tolist(), names.tolist(), devices.tolist(), strict=True)
    ):
        application = applications[name]
        batch = min(application.largest_batch, application.reference * count)
        requests.append(Request(f"{name}-{index}", time, name, count, batch))
    return Workload(f"synthetic-{jobs}", tuple(requests))
