"""Throughputs that Lambda, NVIDIA and MLPerf's submitters have published."""

from __future__ import annotations

import re
from collections.abc import Iterator

from staves.errors import InputError, quoted
from staves.simulation._counted import Tally
from staves.simulation._csv import Row
from staves.simulation.readers._devices import device_type
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._table import (
    FAILED,
    UNKNOWN_TYPE,
    Cell,
    Measured,
    ThroughputTable,
    nodes_of,
    speed,
    table,
)

GARBAGE = "are ncf on four devices or more, which the logs of v1 and v2 have wrong"

_LOGS = (
    "bench_version",
    "gpu_type",
    "num_gpus",
    "model",
    "precision",
    "unit",
    "throughput_mean",
    "n_ok",
    "n_failed",
)


def is_garbage(version: str, model: str, devices: int) -> bool:
    """Say whether Lambda's figure is one of those that its logs have wrong (`GARBAGE`)."""
    return model == "ncf" and devices >= 4 and version != "v0"


def _read_lambda_logs(source: Source) -> ThroughputTable:
    """Read Lambda's PyTorch benchmarks, from logs; versions are not comparable with each other."""
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows(_LOGS):
            version, model = row.text("bench_version"), row.text("model")
            devices, known = row.count("num_gpus", least=1), device_type(row.text("gpu_type"))
            row.count("n_ok")
            value = speed(row, "throughput_mean")
            if known is None or value == 0:
                tally.drop(UNKNOWN_TYPE if known is None else FAILED, row.line)
                continue
            if is_garbage(version, model, devices):
                tally.drop(GARBAGE, row.line)
                continue
            if row.count("n_failed"):
                tally.note("count runs of which some failed", row.line)
            job = "/".join((version, model, row.text("precision"), row.text("unit")))
            yield Measured(Cell(job, known, devices, 1, value), line=row.line)

    return table(source, lines(), tally, ("hosts of one device type count as equal",))


_NAMED = ("name_gpu", "num_gpu")
_NO_MODELS = {"name_gpu", "num_gpu", "watt", "price"}


def _read_lambda(source: Source) -> ThroughputTable:
    """Read Lambda's own tables: a line for each machine, a column for each model; 0 is failed.

    Lambda's tables of batch sizes look alike but for their names, and are refused.
    """
    name = source.path.name
    if "-bs-" in name:
        raise InputError(
            f"{source.path}: holds batch sizes, not throughputs", hint="see the file's name"
        )
    precision = re.search(r"fp16|fp32|amp|tf32", name)
    models = tuple(column for column in source.header if column not in _NO_MODELS)
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows((*_NAMED, *models)):
            devices, known = row.count("num_gpu", least=1), device_type(row.text("name_gpu"))
            values = [speed(row, model) for model in models]
            if known is None:
                tally.drop(UNKNOWN_TYPE, row.line)
                continue
            for model, value in zip(models, values, strict=True):
                if value == 0:
                    tally.drop("have a cell that failed", row.line)
                elif model == "ncf" and devices >= 4:
                    tally.drop(GARBAGE, row.line)
                else:
                    job = f"{model}/{precision[0]}" if precision else model
                    yield Measured(Cell(job, known, devices, 1, value), line=row.line)

    return table(source, lines(), tally, ("hosts of one device type count as equal",))


_NVIDIA = (
    "model_dir",
    "gpu_type",
    "gpus",
    "nodes",
    "precision",
    "value",
    "column",
    "batch",
    "other",
    "caption",
)
_MACHINE = re.compile(r"(on )?(an? )?NVIDIA DGX.*?(\)|$)")


def _read_nvidia(source: Source) -> ThroughputTable:
    """Read the tables of NVIDIA's deep learning examples.

    A job is a folder, its table's caption without the machine, what else the line says, the
    precision and the column, which carries the unit. Where nodes are told, devices are by node.
    """
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows(_NVIDIA):
            known = device_type(row.text("gpu_type"))
            value = speed(row, "value")
            if not row.says("gpus"):
                tally.drop("do not tell the number of devices", row.line)
                continue
            devices = row.count("gpus", least=1)
            if known is None or value == 0:
                tally.drop(UNKNOWN_TYPE if known is None else FAILED, row.line)
                continue
            nodes = row.count("nodes", least=1) if row.says("nodes") else nodes_of(devices, 16)
            devices = devices * nodes if row.says("nodes") else devices
            caption = _MACHINE.sub("", row.cells["caption"]).strip("# .:")
            parts = (row.text("model_dir"), caption, row.cells["other"], row.text("precision"))
            job = "/".join((*parts, row.text("column")))
            yield Measured(Cell(job, known, devices, nodes, value), row.cells["batch"], row.line)

    assumed = ("16 devices at most on a node where nodes are not told",)
    return table(source, lines(), tally, assumed)


_MLPERF = (
    "round",
    "submitter",
    "system",
    "benchmark",
    "accel_model",
    "nodes",
    "accel_per_node",
    "global_batch_size",
    "n_runs",
    "n_success",
    "ttt_olympic_mean_s",
    "gpu_type",
    "total_accel",
)


def _read_mlperf(source: Source) -> ThroughputTable:
    """Read MLPerf's results: trainings an hour, of one round and benchmark, at any batch.

    They hold convergence: twice the devices at twice the batch are less than twice as fast.
    """
    tally = Tally()

    def lines() -> Iterator[Measured]:
        for row in source.rows(_MLPERF):
            seconds = speed(row, "ttt_olympic_mean_s")
            runs, good = row.count("n_runs", least=1), row.count("n_success")
            if not row.says("gpu_type"):
                tally.drop("name no accelerator", row.line)
                continue
            known = device_type(row.text("gpu_type"))
            if known is None or seconds == 0:
                tally.drop(UNKNOWN_TYPE if known is None else FAILED, row.line)
                continue
            if not (row.says("nodes") and row.says("total_accel")):
                tally.drop("do not tell the number of devices", row.line)
                continue
            nodes, devices = row.count("nodes", least=1), _devices(row)
            if good < runs:
                tally.note("count runs that were aborted", row.line)
            job = f"{row.text('round')}/{row.text('benchmark')}"
            yield Measured(Cell(job, known, devices, nodes, 3600 / seconds), line=row.line)

    assumed = (
        "trainings an hour, with their convergence: no speeds of steps",
        "submitters, batches and software of one round count as equal",
    )
    return table(source, lines(), tally, assumed)


def _devices(row: Row) -> int:
    devices, nodes = row.count("total_accel", least=1), row.count("nodes", least=1)
    if devices < nodes:
        raise row.error("total_accel", f"{quoted(devices)} devices on {nodes} nodes")
    return devices


FORMATS = (
    Format(
        "Lambda PyTorch logs",
        "throughputs",
        _read_lambda_logs,
        _LOGS,
        ("vendor", "host_id", "note", "throughput_min", "throughput_max", "source_dir"),
    ),
    Format(
        "Lambda throughputs",
        "throughputs",
        _read_lambda,
        shape=lambda source: source.header[:2] == _NAMED and len(source.header) > 2,
    ),
    Format(
        "NVIDIA deep learning examples",
        "throughputs",
        _read_nvidia,
        _NVIDIA,
        ("framework", "gpu_cell", "raw", "table_line", "section", "source", "folder_licence"),
    ),
    Format(
        "MLPerf training results",
        "throughputs",
        _read_mlperf,
        _MLPERF,
        (
            "division_path",
            "interconnect",
            "division",
            "status",
            "ttt_min_s",
            "ttt_median_s",
            "ttt_max_s",
            "source",
        ),
    ),
)
