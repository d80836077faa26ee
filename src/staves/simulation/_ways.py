"""The ways in which an application may run on a placement: batches, and the time of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from staves.simulation._application import Application
from staves.simulation._curves import Curve, StepTable
from staves.simulation._work import Placement

Array = NDArray[np.float64]

MOST = 50
"""Batches that are tried for a placement, as in adaptdl's search."""

_GROWN = 16  # of those: on mixed devices, batches by accumulation at full memory
_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class Ways:
    """What a job could do on one placement; empty where it cannot run.

    Args:
        batch: samples of a step over all devices and accumulation steps, (K,).
        seconds: of that step, (K,).
        measured: whether nothing lies outside of the measurements.
        sync: seconds of it that gradients take, (K,).
        local: samples of a device in one pass, (K,); empty for unlike devices, as those below.
        accumulation: passes before the last of a step, (K,).
        step: seconds of the last pass, its sync included, (K,).
    """

    batch: Array
    seconds: Array
    measured: bool = True
    sync: Array = field(default_factory=lambda: np.zeros(0))
    local: Array = field(default_factory=lambda: np.zeros(0))
    accumulation: Array = field(default_factory=lambda: np.zeros(0))
    step: Array = field(default_factory=lambda: np.zeros(0))


NONE = Ways(np.zeros(0), np.zeros(0))


def ways(
    application: Application,
    types: Sequence[str],
    node_sizes: Sequence[int],
    placement: Placement,
    batch: int | None,
) -> Ways:
    """Return the ways to run on `placement`.

    Args:
        application: its tables.
        types: names of the types, in the placement's order.
        node_sizes: devices of each type on a node that has them.
        placement: devices on each node, most first, by type.
        batch: the batch where it is fixed; None: the application's, from reference to largest.
    """
    used = [g for g, nodes in enumerate(placement) if nodes]
    devices = sum(map(sum, placement))
    if not used or devices > application.most_devices:
        return NONE
    curves = []
    for g in used:
        table = application.tables.get(types[g])
        curve = None if table is None else table.curve(placement[g])
        if curve is None:
            return NONE
        curves.append(curve)
    if len(used) == 1:
        limit = min(curves[0].largest, application.local_limit(types[used[0]]))
        return _alike(application, curves[0], devices, limit, batch)
    members = [
        _member(application, types[g], sum(placement[g]), devices, node_sizes[g]) for g in used
    ]
    return _mixed(application, [m for m in members if m is not None], len(used), batch)


def _alike(
    application: Application, curve: Curve, devices: int, limit: float, batch: int | None
) -> Ways:
    """Devices of one type: the batch in equal parts, in as few accumulation steps as fit.

    One device alone accumulates once more beyond the reference batch, since gradient statistics
    need two gradients (adaptdl's `GoodputFunction.optimize`).
    """
    smallest = float(curve.batch[0])
    if limit < smallest:
        return NONE
    if batch is None:
        lowest = max(float(application.reference), smallest * devices)
        if lowest > application.largest_batch:
            return NONE
        totals = np.geomspace(lowest, application.largest_batch, MOST)
    else:
        totals = np.array([float(batch)])
    local = totals / devices
    extra = np.ceil(local / math.floor(limit) - _ROUNDING) - 1
    if devices == 1:
        extra = np.where(totals > application.reference + _ROUNDING, np.maximum(extra, 1), extra)
    atomic = np.clip(np.ceil(local / (extra + 1) - _ROUNDING), smallest, limit)
    step, sync = curve.at(atomic)
    if batch is None:
        totals = devices * atomic * (extra + 1)
    below = batch is not None and batch / devices < smallest
    seconds = step + extra * (step - sync)
    return Ways(totals, seconds, curve.measured and not below, sync, atomic, extra, step)


@dataclass(frozen=True, eq=False)
class _Member:
    """The devices of one type in a mixed set."""

    count: int
    compute: Array
    batch: Array
    sync: Curve

    def local(self, seconds: Array) -> Array:
        """Return the samples that a device computes in these seconds, whole ones, in its bounds."""
        return np.floor(np.interp(seconds, self.compute, self.batch) + _ROUNDING)

    def seconds(self, local: Array) -> Array:
        return np.interp(local, self.batch, self.compute)


def _member(
    application: Application, name: str, count: int, devices: int, node_size: int
) -> _Member | None:
    """Return a type's part: its compute time alone, its sync with as many devices over nodes."""
    table = application.tables[name]
    alone, sync = table.curve((1,)), _multi_node(table, devices, node_size)
    limit = application.local_limit(name)
    if alone is None or sync is None:
        return None
    keep = alone.batch <= min(limit, alone.largest)
    if not keep.any():
        return None
    compute = np.maximum.accumulate((alone.step - alone.sync)[keep])
    return _Member(count, compute + np.arange(len(compute)) * 1e-12, alone.batch[keep], sync)


def _multi_node(table: StepTable, devices: int, node_size: int) -> Curve | None:
    """Return the curve of so many devices over at least two nodes, or of the most there are."""
    most = min(devices, table.most_devices)
    nodes = min(max(2, math.ceil(most / node_size)), table.most_nodes)
    full, rest = divmod(most, nodes)
    return table.curve(tuple([full + 1] * rest + [full] * (nodes - rest)) if full else (1,))


def _mixed(
    application: Application, members: Sequence[_Member], types: int, batch: int | None
) -> Ways:
    """Unlike devices: each computes for equally long, and all wait for the slowest sync.

    The optimal split of a step whose sync cannot be hidden (Cannikin's OptPerf); the sync is that
    of the worst type with as many devices over nodes, since nobody has measured mixed rings.
    """
    if len(members) < types:
        return NONE
    low = min(float(m.compute[0]) for m in members)
    high = max(float(m.compute[-1]) for m in members)
    grid = np.geomspace(low, high, MOST - _GROWN)
    locals_ = np.array([member.local(grid) for member in members])  # (members, grid)
    micro = np.array([m.count for m in members]) @ locals_
    if batch is None:
        most = application.largest_batch
        steps = np.unique(np.geomspace(1, max(1.0, most / float(micro[-1])), _GROWN).astype(int))
        column = np.append(np.arange(len(grid)), np.full(len(steps) - 1, len(grid) - 1))
        extra = np.append(np.zeros(len(grid)), steps[1:] - 1)
        total = micro[column] * (extra + 1)
        fits = (total >= application.reference) & (total <= most)
        if not fits.any():
            return NONE
        column, extra, total = column[fits], extra[fits], total[fits]
        local = locals_[:, column]
    else:
        extra = np.array([max(0.0, math.ceil(batch / float(micro[-1]) - _ROUNDING) - 1)])
        at = int(np.searchsorted(micro, batch / (extra[0] + 1) - _ROUNDING))
        local = locals_[:, [min(at, len(grid) - 1)]]
        total = np.array([float(batch)])
    compute = np.array([m.seconds(b) for m, b in zip(members, local, strict=True)]).max(axis=0)
    syncs = [
        m.sync.at(np.minimum(b, m.sync.largest))[1] for m, b in zip(members, local, strict=True)
    ]
    return Ways(
        total,
        compute * (extra + 1) + np.max(syncs, axis=0),
        batch is None or batch >= float(micro[0]),
        sync=np.max(syncs, axis=0),
    )
