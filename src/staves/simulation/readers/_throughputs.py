"""Throughput tables of benchmarks and simulators, one function a layout."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from staves.errors import InputError, quoted
from staves.simulation._counted import Tally
from staves.simulation._csv import Row
from staves.simulation.readers import _published
from staves.simulation.readers._devices import device_type
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._gavel_rates import APART, throughputs_of
from staves.simulation.readers._table import (
    COLUMNS,
    FAILED,
    NODE_SIZE,
    UNKNOWN_TYPE,
    Cell,
    Measured,
    ThroughputTable,
    cell_in,
    nodes_of,
    speed,
    table,
)


def _read_own(source: Source) -> ThroughputTable:
    """Read the estimator's own layout; rows without a throughput are questions, and dropped."""
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows(COLUMNS):
            cell = cell_in(row)
            if cell.throughput == 0:
                tally.drop(FAILED, row.line)
                continue
            yield Measured(cell, line=row.line)

    return table(source, lines(), tally)


_LONG = (
    "source",
    "model",
    "gpu_type",
    "num_gpus",
    "num_nodes",
    "placement",
    "precision",
    "batch_per_gpu",
    "throughput",
    "unit",
    "kind",
)


def _read_long(source: Source) -> ThroughputTable:
    """Read a long table of many sources: a job is source, model, precision and unit."""
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows(_LONG):
            unit, kind, batch = row.text("unit"), row.text("kind"), row.cells["batch_per_gpu"]
            devices, known = row.count("num_gpus", least=1), device_type(row.text("gpu_type"))
            value = speed(row, "throughput")
            if unit == "trainings/h":
                tally.drop("tell times to train, which hold convergence too", row.line)
            elif kind.startswith(("synthetic", "measured layerwise sum")):
                tally.drop("are computed, not measured", row.line)
            elif known is None:
                tally.drop(UNKNOWN_TYPE, row.line)
            elif value == 0:
                tally.drop(FAILED, row.line)
            elif _is_garbage(row, devices):
                tally.drop(_published.GARBAGE, row.line)
            else:
                steps = unit in ("steps/s", "iterations/s")  # comparable at equal batch only
                parts = (row.text("source"), row.text("model"), row.cells["precision"], unit)
                job = "/".join((*parts, batch) if steps else parts)
                if kind.startswith("strong-scaling"):
                    job = f"{job}/{kind}"
                nodes = _nodes(row, devices, tally)
                cell = Cell(job, known, devices, nodes, value)
                yield Measured(cell, "" if steps else batch, row.line)

    return table(source, lines(), tally, ("units differ by job, never within one",))


def _is_garbage(row: Row, devices: int) -> bool:
    publisher, _, version = row.text("source").rpartition("-")
    return publisher == "lambda-pytorch" and _published.is_garbage(
        version, row.text("model"), devices
    )


def _nodes(row: Row, devices: int, tally: Tally) -> int:
    if row.says("num_nodes"):
        return row.count("num_nodes", least=1)
    placement = row.cells["placement"].strip()
    if placement == "unconsolidated":
        return devices
    if placement == "consolidated":
        return 1
    tally.note(f"do not tell their nodes: {NODE_SIZE} devices on each", row.line)
    return nodes_of(devices)


def _read_gavel(source: Source) -> ThroughputTable:
    """Read Gavel's tables; steps a second over all workers, on one node or on one each."""
    tally = Tally()
    found = throughputs_of(source.path, source.document, tally)

    def lines() -> Iterator[Measured]:
        for name, application in found.items():
            for apart, types in ((False, application.together), (True, application.apart)):
                for worker, rates in types.items():
                    known = device_type(worker)
                    for devices, rate in rates.items():
                        if known is None:
                            tally.drop(UNKNOWN_TYPE)
                        elif rate == 0:
                            tally.drop(FAILED)
                        elif not (apart and devices == 1):  # one worker is not apart
                            nodes = devices if apart else 1
                            yield Measured(Cell(name, known, devices, nodes, rate))

    return table(source, lines(), tally, ("consolidated workers are on one node",))


def _is_gavel(source: Source) -> bool:
    document = source.document
    return (
        isinstance(document, Mapping)
        and bool(document)
        and all(
            isinstance(jobs, Mapping) and all(isinstance(cells, Mapping) for cells in jobs.values())
            for jobs in document.values()
        )
        and any(_WORKER.fullmatch(worker.removesuffix(APART)) for worker in document)
    )


_WORKER = re.compile(r"[kpvath]\d+\w*")


def read_elasticflow(source: Source) -> ThroughputTable:
    """Read ElasticFlow's iterations a second at fixed global batch by number of devices.

    The file's name is the model, its folder's name ends in the device type.

    Raises:
        InputError: the file is damaged, or its folder's name does not end in a device type.
    """
    known = device_type(source.path.absolute().parent.name.rpartition("_")[2])
    if known is None:
        raise InputError(
            f"{source.path}: the folder's name does not end in a device type",
            hint="like throughputs_A100/bert.csv",
        )
    model = source.path.name.removesuffix(".gz").rsplit(".", 1)[0]
    counts = tuple(name for name in source.header if name != "global_batch_size")
    for name in counts:
        if not name.isascii() or not name.isdigit() or not 0 < int(name) < 10**6:
            raise InputError(
                f"{source.path}:1: {quoted(name)} is no number of devices",
                hint="wanted columns: global_batch_size,1,2,4,...",
            )
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows(("global_batch_size", *counts)):
            batch = row.count("global_batch_size", least=1)
            for name in counts:
                value = speed(row, name)
                if value == 0:
                    tally.drop("have a cell that does not fit, or was not measured", row.line)
                    continue
                cell = Cell(
                    f"{model} (batch size {batch})", known, int(name), nodes_of(int(name)), value
                )
                yield Measured(cell, line=row.line)

    assumed = (f"{NODE_SIZE} devices on a node", "iterations a second at a fixed global batch")
    return table(source, lines(), tally, assumed)


def is_elasticflow(source: Source) -> bool:
    """Say whether a file begins as ElasticFlow's tables do."""
    return source.header[:1] == ("global_batch_size",)


def _read_tf(source: Source) -> ThroughputTable:
    """Read TensorFlow's benchmarks of 2017: images a second, real data or synthetic."""
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows(_TF):
            devices, size = row.count("num_gpus", least=1), row.count("gpus_per_node", least=1)
            known = device_type(row.text("gpu_type"))
            value = speed(row, "images_per_s")
            if known is None or value == 0:
                tally.drop(UNKNOWN_TYPE if known is None else FAILED, row.line)
                continue
            job = f"{row.text('model')}/{row.text('data')}"
            cell = Cell(job, known, devices, math.ceil(devices / size), value)
            yield Measured(cell, row.cells["batch_per_gpu"], row.line)

    return table(source, lines(), tally)


_TF = (
    "platform",
    "gpu_type",
    "gpus_per_node",
    "data",
    "model",
    "batch_per_gpu",
    "num_gpus",
    "images_per_s",
)


FORMATS = (
    Format("throughputs as the estimator reads them", "throughputs", _read_own, COLUMNS),
    Format("long table of throughputs", "throughputs", _read_long, _LONG),
    Format("Gavel throughputs", "throughputs", _read_gavel, shape=_is_gavel),
    Format("ElasticFlow throughputs", "throughputs", read_elasticflow, shape=is_elasticflow),
    Format("TensorFlow benchmarks 2017", "throughputs", _read_tf, _TF, ("source",)),
    *_published.FORMATS,
)
