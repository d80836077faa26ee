"""Shares of a batch: even, or by speed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from staves.training import StepRecord, apportion


def evenly(batch: int, devices: int) -> tuple[int, ...]:
    return apportion([1] * devices, batch)


def proportionally(batch: int, speeds: Sequence[float]) -> tuple[int, ...]:
    """Split a batch in the proportions of the speeds, samples a second; whoever has some keeps one
    at least, where there are enough."""
    weights = np.round(1e6 * np.asarray(speeds) / np.sum(speeds)).astype(int)
    split = list(apportion([max(1, int(w)) for w in weights], batch))
    for device, share in enumerate(split):
        if share == 0 and batch >= len(split):
            split[device] += 1
            split[int(np.argmax(split))] -= 1
    return tuple(split)


def speeds(steps: Sequence[Sequence[StepRecord]]) -> list[float]:
    """Return each device's samples a second of computing, by the medians of these steps."""
    by_rank = list(zip(*steps, strict=True))
    return [
        float(np.median([max(r.samples, 0.5) / (r.forward + r.backward) for r in own]))
        for own in by_rank
    ]
