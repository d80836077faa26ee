"""The step-time model of a job, fitted to what all its ranks have measured. Pure: no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    fit_communication,
    fit_line,
)
from staves.training._environment import WorkerDevice
from staves.training._knowledge import Knowledge
from staves.training._timing import StepRecord


def fit_model(
    records: Sequence[Sequence[StepRecord]],
    devices: Sequence[WorkerDevice],
    bounds: Sequence[tuple[int, int | None]],
    knowledge: Knowledge,
) -> StepTimeModel:
    """Return the step-time model of these devices.

    Compute lines are each device's own; the wire times of a step are the least over the ranks
    (a rank that comes early also waits), and the buckets' ready shares the median over all.

    Args:
        records: of each rank.
        devices: one for each rank.
        bounds: the least and the most samples a step of each device; None for no bound.
        knowledge: what is known of the devices' lines already.
    """
    fitted = []
    pairs = zip(devices, records, bounds, strict=True)
    for rank, (device, own, (least, most)) in enumerate(pairs):
        samples = [record.samples for record in own]
        known = knowledge.lines_of(device) or (None, None)
        fitted.append(
            Device(
                name=f"{rank}:{device.name}",
                type=device.type,
                forward=_line(samples, [record.forward for record in own], known[0]),
                backward=_line(samples, [record.backward for record in own], known[1]),
                min_batch=least,
                max_batch=most,
            )
        )
    return StepTimeModel(tuple(fitted), _communication(records))


def jitter(model: StepTimeModel, records: Sequence[Sequence[StepRecord]]) -> float:
    """Return how much longer steps take than the model says: the median ratio over measured steps.

    The model is one of typical times, and a step waits for the latest of n devices: where each
    varies, the mean of the largest lies above the largest of the means.
    """
    by_step: list[dict[int, StepRecord]] = [{r.step: r for r in own} for own in records]
    modelled: dict[tuple[float, ...], float] = {}
    ratios = []
    for step in set.intersection(*(set(own) for own in by_step)):
        split = tuple(own[step].samples for own in by_step)
        if split not in modelled:
            modelled[split] = model.step_seconds(split)
        measured = np.mean([own[step].step_seconds for own in by_step])
        ratios.append(measured / modelled[split])
    return float(np.median(ratios)) if ratios else 1.0


def _line(samples: Sequence[float], seconds: Sequence[float], known: Line | None) -> Line:
    return fit_line(np.asarray(samples, dtype=float), np.asarray(seconds, dtype=float), known)


def _communication(records: Sequence[Sequence[StepRecord]]) -> Communication:
    """Return the buckets' ready shares and wire times from the steps that all ranks measured."""
    by_step: list[dict[int, StepRecord]] = [{r.step: r for r in own} for own in records]
    common = sorted(set.intersection(*(set(own) for own in by_step)))
    # The bucket layout changes once, after the first step; keep the layout that stayed.
    buckets = len(by_step[0][common[-1]].wire) if common else 0
    steps = [s for s in common if all(len(own[s].wire) == buckets for own in by_step)]
    if not steps or buckets == 0:
        return Communication((1.0,), (0.0,))
    wire = np.array([[own[s].wire for own in by_step] for s in steps])
    shares = np.array(
        [
            np.asarray(own[s].ready) / own[s].backward
            for s in steps
            for own in by_step
            if own[s].backward > 0
        ]
    )
    ready = np.maximum.accumulate(np.clip(np.median(shares, axis=0), 0.0, 1.0))
    ready[-1] = 1.0
    return Communication(
        tuple(float(r) for r in ready), tuple(float(s) for s in fit_communication(wire))
    )
