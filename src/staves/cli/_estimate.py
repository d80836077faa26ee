"""`staves estimate`: throughput of configurations on which a job has not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staves.cli._bounds import check_within
from staves.cli._output import messages, output, print_json
from staves.cli._service import cell as shown
from staves.cli._service import client, print_table
from staves.errors import InputError, printable

if TYPE_CHECKING:
    from staves.estimation import Cell, CollaborativeFilter, History, Measured
    from staves.simulation import Sheet

_LONG_WORK = 10**8
"""Measurements x cells^2 beyond which learning takes some seconds."""


def estimate(
    observed: Annotated[
        Path,
        typer.Option(
            "--observed",
            metavar="FILE",
            help="CSV of new jobs: job,device_type,devices,nodes,throughput. A row whose throughput"
            " is empty is a question.",
        ),
    ],
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FILE",
            help="Past jobs: the same columns, or any file of throughputs that `staves trace show`"
            " reads. Without it, only the devices' peaks are known.",
        ),
    ] = None,
    from_service: Annotated[
        bool,
        typer.Option(
            "--from-service",
            help="Past jobs: those that the running service has measured, by their ids"
            " (`staves history`).",
        ),
    ] = False,
    next_probe: Annotated[
        bool, typer.Option("--next-probe", help="Name the cell to measure next for each job.")
    ] = False,
    probe_cost: Annotated[
        float | None,
        typer.Option(
            "--probe-cost",
            metavar="SHARE",
            help="With --next-probe: what a probe takes of a job's remaining time.",
            show_default="0.01",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Predict throughput on configurations that were not measured, from past jobs and few probes.

    A cell is a number of devices of one type on a number of nodes. Throughputs are in each job's
    own unit, whatever that is.
    """
    if probe_cost is not None:
        if not next_probe:
            raise InputError("--probe-cost goes with --next-probe", hint="add it, or leave it out")
        check_within("--probe-cost", probe_cost, 0, 1, hint="a share, like 0.01")
    if from_service and history is not None:
        raise InputError("--from-service and --history contradict each other", hint="give one")
    # numpy loads with the command that needs it, not with `staves --help`.
    from staves.estimation import CollaborativeFilter
    from staves.simulation import read_sheet

    sheet = read_sheet(observed)
    if not (sheet.measured or sheet.asked):
        raise InputError(
            f"{observed}: no row is measured, and none is a question",
            hint="leave the throughput of what is asked empty",
        )
    past = _of_service() if from_service else _history(history)
    known = _known(sheet, past)
    cells = {_cell(one) for one in (*sheet.measured, *sheet.asked)}
    rounds = sum(map(len, past.jobs.values()))
    if rounds * len(past.cells | cells) ** 2 > _LONG_WORK:
        messages.print(f"staves: learning from {len(past.jobs)} past jobs ...")
    model = CollaborativeFilter.fit(past, cells)
    if next_probe:
        probes = list(_probes(model, sheet, known, probe_cost))
        print_json({"probes": probes}) if json else _print_probes(probes)
    else:
        predictions = list(_predictions(model, sheet, known))
        print_json({"predictions": predictions}) if json else _print_predictions(predictions)


def _cell(row: Any) -> Cell:
    from staves.estimation import Cell

    return Cell(row.device_type, row.devices, row.nodes)


def _of_service() -> History:
    """Return what the running service has measured, by the ids of its jobs."""
    from staves.estimation import Cell, History

    with client() as service:
        rows = service.history()
    return History.of(
        (row["job"], Cell(row["device_type"], row["devices"], row["nodes"]), row["throughput"])
        for row in rows
    )


def _history(path: Path | None) -> History:
    """Return the past jobs of a file of throughputs.

    Raises:
        InputError: it is none.
    """
    from staves.estimation import History
    from staves.simulation import ThroughputTable, read_file

    if path is None:
        return History()
    found = read_file(path)
    if not isinstance(found.contents, ThroughputTable):
        raise InputError(
            f"{path}: holds {found.format.holds}, not throughputs",
            hint="wanted columns: job,device_type,devices,nodes,throughput",
        )
    return History.of((one.job, _cell(one), one.throughput) for one in found.contents.cells)


def _known(sheet: Sheet, past: History) -> dict[str, dict[Cell, Measured]]:
    """Return what each job of the sheet was measured at; in the history, too, where it is there."""
    from staves.estimation import History

    new = History.of((one.job, _cell(one), one.throughput) for one in sheet.measured)
    names = dict.fromkeys(one.job for one in (*sheet.measured, *sheet.asked))
    return {name: {**past.of_job(name), **new.of_job(name)} for name in names}


def _predictions(
    model: CollaborativeFilter, sheet: Sheet, known: dict[str, dict[Cell, Measured]]
) -> Iterator[dict[str, Any]]:
    """Yield an answer for each question, in their order."""
    by_job = {name: model.predict(cells) for name, cells in known.items()}
    bounds = {name: found.interval(0.9) for name, found in by_job.items()}
    for one in sheet.asked:
        found, at = by_job[one.job], model.space.index([_cell(one)])[0]
        low, high = bounds[one.job]
        yield _place(one.job, _cell(one)) | {
            "throughput": float(found.throughput[at]),
            "log_std": float(found.log_std[at]),
            "low": float(low[at]),
            "high": float(high[at]),
        }


def _probes(
    model: CollaborativeFilter,
    sheet: Sheet,
    known: dict[str, dict[Cell, Measured]],
    cost: float | None,
) -> Iterator[dict[str, Any]]:
    """Yield for each job the cell to measure next: one that it asks about, where there is one.

    Of a job that asks nothing it is any cell that the model has; none where all were measured.
    """
    from staves.estimation.filtering import PROBE_COST

    failed = {(one.job, _cell(one)) for one in sheet.failed}
    for name, cells in known.items():
        asked = list(dict.fromkeys(_cell(one) for one in sheet.asked if one.job == name))
        anywhere = [cell for cell in model.space.cells if (name, cell) not in failed]
        probe = model.next_probe(cells, asked or anywhere, PROBE_COST if cost is None else cost)
        if probe is not None:
            yield _place(name, probe.cell) | ({"stop": True} if probe.stop else {})
        elif asked:  # every one was measured in the history
            yield _place(name, asked[0]) | {"stop": True}


def _place(job: str, cell: Cell) -> dict[str, Any]:
    return {
        "job": job,
        "device_type": cell.device_type,
        "devices": cell.devices,
        "nodes": cell.nodes,
    }


def _print_predictions(predictions: list[dict[str, Any]]) -> None:
    if not predictions:
        output().print("Nothing is asked: leave the throughput of a row empty.")
        return
    print_table(
        ("job", "type", "devices", "nodes", "throughput", "9 of 10 lie within"),
        [
            (
                one["job"],
                one["device_type"],
                one["devices"],
                one["nodes"],
                one["throughput"],
                f"{shown(one['low'])} - {shown(one['high'])}",
            )
            for one in predictions
        ],
    )


def _print_probes(probes: list[dict[str, Any]]) -> None:
    for one in probes:
        nodes = "one node" if one["nodes"] == 1 else f"{one['nodes']} nodes"
        where = f"{one['devices']}x{one['device_type']} on {nodes}"
        enough = "; enough is known" if one.get("stop") else ""
        output().print(printable(f"{one['job']}: {where}{enough}"), soft_wrap=True)
    if not probes:
        output().print("Every cell is measured.")
