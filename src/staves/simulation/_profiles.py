"""Reads folders of application profiles in the layout of the Pollux and Sia simulators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from staves.errors import InputError, quoted
from staves.simulation._application import Application, Statistics
from staves.simulation._csv import Row, read_rows
from staves.simulation._curves import Curve, Shape, StepTable, curve_of
from staves.simulation._setup import TYPE_NAMES, Setup

Point = tuple[float, float, float]

_LARGEST_SQUARE = 1e150
"""Of gradients, whose scale is the loss's own and can be anything: only ratios of them count, and
products of two stay finite."""

_FILE = re.compile(r"(placements|scalability)(?:-(.+))?\.csv")
_VALIDATION = re.compile(r"validation-(\d{1,12})\.csv")


def read_profiles(
    folders: Sequence[Path],
    setup: Setup,
    types: Iterable[str],
    *,
    applications: Iterable[str] | None = None,
    type_names: Mapping[str, str] | None = None,
) -> dict[str, Application]:
    """Return the applications in `folders`, each a folder with a folder for each application.

    Folders of one application are united. An application without validation runs, or without step
    times on any of `types`, is left out.

    Args:
        folders: where to look.
        setup: what the files do not say.
        types: device types to read; others are passed over.
        applications: those to read; all by default.
        type_names: what the suffixes of files mean; `TYPE_NAMES` by default.

    Raises:
        InputError: a folder is none, a file is damaged, or nothing is there.
    """
    names = TYPE_NAMES if type_names is None else type_names
    wanted = set(types)
    only = None if applications is None else set(applications)
    files: dict[str, list[Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder", hint="name a folder of applications")
        for inner in sorted(folder.iterdir()):
            if inner.is_dir() and (only is None or inner.name in only):
                files.setdefault(inner.name, []).extend(sorted(inner.glob("*.csv")))
    result = {}
    for name, paths in sorted(files.items()):
        tables = _tables(paths, names, wanted)
        validations = [path for path in paths if _VALIDATION.fullmatch(path.name)]
        if tables and validations:
            result[name] = _application(name, tables, _statistics(name, validations, setup), setup)
    if not result:
        raise InputError(
            f"{', '.join(map(str, folders))}: no application with step times on"
            f" {', '.join(sorted(wanted))} and validation runs",
            hint="wanted: APPLICATION/placements[-SUFFIX].csv and validation-BATCH.csv;"
            " see --type-names",
        )
    return result


def _application(
    name: str, tables: Mapping[str, StepTable], statistics: Statistics, setup: Setup
) -> Application:
    limits = setup.largest_local.get(name, {})
    return Application(
        name,
        tables,
        statistics,
        setup.pause_seconds.get(name, setup.other_pause_seconds),
        setup.calibration.get(name, 1.0),
        setup.most_devices.get(name, 64),
        {kind: limits[key] for kind in tables for key in (kind, "*") if key in limits},
    )


def _tables(
    paths: Sequence[Path], names: Mapping[str, str], wanted: set[str]
) -> dict[str, StepTable]:
    placed: dict[str, dict[tuple[int, ...], list[Point]]] = {}
    shaped: dict[str, dict[Shape, list[Point]]] = {}
    for path in paths:
        match = _FILE.fullmatch(path.name)
        kind = names.get(match[2] or "") if match else None
        if match is None or kind is None or kind not in wanted:
            continue
        if match[1] == "placements":
            for row in read_rows(path, ("placement", "local_bsz", "step_time", "sync_time")):
                placement = _placement(row)
                placed.setdefault(kind, {}).setdefault(placement, []).append(_point(row))
        else:
            columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
            for row in read_rows(path, columns):
                shape = (row.count("num_nodes", least=1), row.count("num_replicas", least=1))
                if shape[1] < shape[0]:
                    raise row.error("num_replicas", f"{shape[1]} devices on {shape[0]} nodes")
                shaped.setdefault(kind, {}).setdefault(shape, []).append(_point(row))
    return {
        kind: _table(placed.get(kind, {}), shaped.get(kind, {}))
        for kind in sorted({*placed, *shaped})
    }


def _table(
    placed: Mapping[tuple[int, ...], list[Point]], shaped: Mapping[Shape, list[Point]]
) -> StepTable:
    placements = {placement: curve_of(points) for placement, points in placed.items()}
    by_shape: dict[Shape, list[Curve]] = {}
    for placement, curve in placements.items():
        by_shape.setdefault((len(placement), sum(placement)), []).append(curve)
    for shape, points in shaped.items():
        by_shape.setdefault(shape, []).append(curve_of(points))
    return StepTable(placements, {shape: _mean(curves) for shape, curves in by_shape.items()})


def _mean(curves: Sequence[Curve]) -> Curve:
    """Return the mean of curves of one shape, at every batch over those that have it."""
    points = [
        point
        for curve in curves
        for point in zip(
            curve.batch.tolist(), curve.step.tolist(), curve.sync.tolist(), strict=True
        )
    ]
    return curve_of(points)


def _placement(row: Row) -> tuple[int, ...]:
    text = row.text("placement")
    digits = tuple(sorted((int(c) for c in text if c in "123456789"), reverse=True))
    if len(digits) != len(text):
        raise row.error("placement", f"{quoted(text)}: wanted one digit, 1 to 9, for each node")
    return digits


def _point(row: Row) -> Point:
    batch, step, sync = (
        float(row.count("local_bsz", least=1)),
        row.number("step_time"),
        row.number("sync_time"),
    )
    if step <= 0:
        raise row.error("step_time", "must be above zero")
    if sync > step:
        raise row.error("sync_time", f"{sync:g} s of sync do not fit in a step of {step:g} s")
    return batch, step, sync


def _statistics(name: str, paths: Sequence[Path], setup: Setup) -> Statistics:
    """Return the statistics of all validation runs, cut to the epochs that all have."""
    runs: dict[int, list[tuple[float, float, float]]] = {}
    for path in paths:
        match = _VALIDATION.fullmatch(path.name)
        assert match is not None
        batch, before = int(match[1]), 0.0
        if batch < 1:
            raise InputError(f"{path}: the batch in its name is below 1")
        if batch in runs:
            continue  # of united folders, the first that has it
        rows = []
        for row in read_rows(path, ("progress", "grad_sqr", "grad_var")):
            progress = row.number("progress")
            if progress < before:
                raise row.error("progress", f"{progress:g} is below that of the epoch before")
            square = row.number("grad_sqr", most=_LARGEST_SQUARE)
            noise = row.number("grad_var", most=_LARGEST_SQUARE)
            if square + noise <= 0:
                raise row.error("grad_sqr", "no gradient at all: square and variance are zero")
            rows.append((progress, square, noise))
            before = progress
        if not rows:
            raise InputError(f"{path}:2: no epoch", hint="the file may be cut short")
        runs[batch] = rows
    batches = sorted(runs)
    epochs = min(min(map(len, runs.values())), setup.epochs.get(name, 10**9))
    table = np.array([runs[batch][:epochs] for batch in batches])  # (B, E, 3)
    return Statistics(
        np.array(batches, dtype=np.float64),
        table[:, :, 0].min(axis=0),
        np.ascontiguousarray(table[:, :, 1].T),
        np.ascontiguousarray(table[:, :, 2].T),
    )
