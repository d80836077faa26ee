"""The step-time model of a job, fitted to what all its ranks have measured. Pure: no torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from staves.steptime import (
    FREE,
    Cell,
    Communication,
    Device,
    Line,
    LineFit,
    StepTimeModel,
    cells_of,
    combine,
    fit_cells,
    fit_communication,
    merge,
    pool,
    pooled_shape,
    robust_variance,
    type_key,
    typical,
)
from staves.training._environment import WorkerDevice
from staves.training._knowledge import Knowledge, Phase, Phases, ring
from staves.training._timing import StepRecord

Records = Sequence[Sequence[StepRecord]]
"""Every rank's."""

_PHASES: tuple[Phase, ...] = ("forward", "backward", "data", "update")
_MEMORY = 100.0  # steps that the communication known so far counts as at most
_OF_OTHERS = 5.0  # and where it was measured over another number of devices, or other nodes
_LEAST_DEVIATION = 1e-3  # of a ready share: a few equal readings are not exact ones
_POOLED_WEIGHT = 4.0  # readings that the ranks' common variance counts as in each one's own


@dataclass(frozen=True)
class FittedModel:
    """A model, and how sure its lines are.

    Attributes:
        model: of the devices in rank order.
        forward, backward: each device's lines with their covariances.
    """

    model: StepTimeModel
    forward: tuple[LineFit, ...]
    backward: tuple[LineFit, ...]

    def interval(
        self, local_batches: Sequence[float], deviations: float = 1.96
    ) -> tuple[float, float]:
        """Return bounds of the step time in seconds: every device's time that much either way.

        The maximum of the lower bounds and of the upper ones: with n devices that decide alike the
        coverage of the upper one is that of n intervals at once.
        """
        seconds = self.model.device_seconds(local_batches)
        widths = np.array(
            [
                deviations * float(np.hypot(a.deviation(b), p.deviation(b)))
                for a, p, b in zip(self.forward, self.backward, local_batches, strict=True)
            ]
        )
        return float(np.maximum(seconds - widths, 0.0).max()), float((seconds + widths).max())


def observe(
    knowledge: Knowledge,
    records: Records,
    devices: Sequence[WorkerDevice],
    changed: Collection[int] = (),
) -> Knowledge:
    """Return the knowledge with the ranks' new measurements taken in; old ones fade.

    Args:
        knowledge: so far.
        records: of each rank, those that it has not taken in yet, as of single micro-steps.
        devices: one for each rank.
        changed: ranks whose device has become slower or faster; their `records` are all from
            since. What was measured of it before is dropped.
    """
    knowledge = knowledge.forget(devices[rank].name for rank in changed)
    cells, of_type = dict(knowledge.cells), dict[str, list[Phases]]()
    for device, own in zip(devices, records, strict=True):
        new = _cells(own)
        if new is not None:
            cells[device.name] = _merged(cells.get(device.name), new)
            of_type.setdefault(type_key(device.type), []).append(new)
    for key, news in of_type.items():
        pooled: Phases = {phase: pool([new[phase] for new in news]) for phase in _PHASES}
        cells[key] = _merged(cells.get(key), pooled)
    return _observe_communication(replace(knowledge, cells=cells), records, devices)


def fit_model(
    knowledge: Knowledge,
    devices: Sequence[WorkerDevice],
    bounds: Sequence[tuple[int, int | None]],
) -> FittedModel:
    """Return the step-time model of these devices, from what they have measured.

    Each device has its own lines. Where its batches lie too near each other to tell fixed time from
    time a sample, the line that was known of it or of its type says which share is fixed, or else
    the devices' pooled share (Cannikin, section on learning the model).

    Args:
        knowledge: with measurements or lines of every device.
        devices: one for each rank.
        bounds: the least and the most samples a step of each device; None for no bound.
    """
    fits: dict[Phase, list[LineFit]] = {}
    phases: tuple[Phase, Phase] = ("forward", "backward")
    for place, phase in enumerate(phases):
        tables = [knowledge.cells.get(device.name, {}).get(phase, ()) for device in devices]
        shape = pooled_shape(tables)
        fits[phase] = []
        for device, cells in zip(devices, tables, strict=True):
            known = knowledge.lines_of(device)
            fits[phase].append(_fit(cells, shape if known is None else known[place]))
    fitted = tuple(
        Device(f"{rank}:{device.name}", device.type, forward.line, backward.line, least, most)
        for rank, (device, forward, backward, (least, most)) in enumerate(
            zip(devices, fits["forward"], fits["backward"], bounds, strict=True)
        )
    )
    communication = knowledge.communication_of(devices) or FREE
    return FittedModel(
        StepTimeModel(fitted, communication), tuple(fits["forward"]), tuple(fits["backward"])
    )


def phase_fits(knowledge: Knowledge, name: str) -> dict[Phase, LineFit]:
    """Return the fit of every phase of one device, or of a type (`type_key`), as far as measured.

    `data` and `update` are told apart here; both are parts of `forward`.
    """
    phases = knowledge.cells.get(name, {})
    return {phase: fit_cells(cells) for phase, cells in phases.items() if cells}


def jitter(model: StepTimeModel, records: Records) -> float:
    """Return how much longer steps take than the model says: the typical ratio of measured steps.

    The model is one of typical times, and a step waits for the latest of n devices: where each
    varies, the mean of the largest lies above the largest of the means.
    """
    by_step: list[dict[int, StepRecord]] = [{r.step: r for r in own} for own in records]
    modelled: dict[tuple[float, ...], float] = {}
    ratios = []
    for step in sorted(set.intersection(*(set(own) for own in by_step))):
        split = tuple(own[step].samples for own in by_step)
        if split not in modelled:
            modelled[split] = model.step_seconds(split)
        measured = np.mean([own[step].step_seconds for own in by_step])
        if modelled[split] > 0:
            ratios.append(measured / modelled[split])
    return typical(np.asarray(ratios, dtype=np.float64)) if ratios else 1.0


def _fit(cells: Sequence[Cell], expected: Line | None) -> LineFit:
    if cells or expected is None:
        return fit_cells(cells, expected)
    return LineFit(expected, (0.0, 0.0, 0.0))  # known, and nothing new


def _cells(records: Sequence[StepRecord]) -> Phases | None:
    if not records:
        return None
    samples = [record.samples for record in records]
    return {phase: cells_of(samples, [getattr(r, phase) for r in records]) for phase in _PHASES}


def _merged(older: Phases | None, newer: Phases) -> Phases:
    if older is None:
        return newer
    return {phase: merge(older.get(phase, ()), newer[phase]) for phase in _PHASES}


def _observe_communication(
    knowledge: Knowledge, records: Records, devices: Sequence[WorkerDevice]
) -> Knowledge:
    """Take in the buckets' ready shares and wire times from the steps that all ranks measured."""
    by_step: list[dict[int, StepRecord]] = [{r.step: r for r in own} for own in records]
    common = sorted(set.intersection(*(set(own) for own in by_step)))
    # The bucket layout changes once, after the first step; keep the layout that stayed.
    buckets = len(by_step[0][common[-1]].wire) if common else 0
    steps = [
        s
        for s in common
        if all(len(own[s].wire) == buckets and own[s].backward > 0 for own in by_step)
    ]
    if not steps or buckets == 0:
        return knowledge
    seconds = fit_communication(np.array([[own[s].wire for own in by_step] for s in steps]))
    ready = _ready(
        np.array([[np.asarray(own[s].ready) / own[s].backward for own in by_step] for s in steps])
    )
    known, new = knowledge.ring_of(devices), ring(devices, FREE)
    new = replace(new, sizes=by_step[0][steps[-1]].sizes)
    before, now = 0.0, float(len(steps))
    if known is not None and len(known.communication.ready) == buckets:
        same = (known.devices, known.nodes) == (new.devices, new.nodes)
        before = min(known.steps, _MEMORY if same else _OF_OTHERS)
        share, old = now / (before + now), known.of(new.devices)
        seconds = share * seconds + (1 - share) * np.array(old.seconds)
        ready = share * ready + (1 - share) * np.array(old.ready)
    ready[-1] = 1.0
    communication = Communication(tuple(float(r) for r in ready), tuple(float(s) for s in seconds))
    counted = min(before + now, _MEMORY)
    return knowledge.with_ring(replace(new, communication=communication, steps=counted))


def _ready(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the buckets' ready shares (K,) from those of all steps and ranks (steps, ranks, K).

    The ranks share them, and each has a noise of its own: inverse-variance weights over ranks.
    """
    steps, ranks, buckets = shares.shape
    means, variances = np.empty((ranks, buckets)), np.empty((ranks, buckets))
    for rank in range(ranks):
        for j in range(buckets):
            means[rank, j] = typical(shares[:, rank, j])
            variances[rank, j] = robust_variance(shares[:, rank, j])
    pooled = variances.mean(axis=0)
    variances = (steps * variances + _POOLED_WEIGHT * pooled) / (steps + _POOLED_WEIGHT)
    variances = (variances + _LEAST_DEVIATION**2) / steps
    combined: NDArray[np.float64] = np.maximum.accumulate(
        np.clip(combine(means, variances), 0.0, 1.0)
    )
    return combined
