"""The demo's view and its final table, at the widths of common terminals."""

from __future__ import annotations

import io
from typing import Any

import pytest
from examples.demo._table import final_table
from examples.demo._view import SPAN, DemoView, Job, by_type, changes, frame, marks, strip
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

DEVICES = [
    "fast/a100-0", "fast/a100-1", "middle/v100-0", "middle/v100-1", "slow/t4-0", "slow/t4-1",
]  # fmt: skip


def job(name: str, state: str = "running", *devices: str) -> Job:
    trains = bool(devices)
    return {
        "name": name,
        "state": state,
        "devices": list(devices),
        "progress": 0.421 if trains else None,
        "samples_per_second": 1234.5 if trains else None,
        "local_batches": [128 // len(devices)] * len(devices) if trains else [],
        "loss": 2.0719 if trains else None,
        "eta_seconds": 37.4 if trains else None,
    }


JOBS = [
    job("digits", "running", *DEVICES),
    job("charlm", "queued"),
    job("table", "rescaling", "slow/t4-0"),
    job("highlight", "finished"),
]


def drawn(what: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_a_frame_fits_and_says_all(width: int) -> None:
    history = [(0.0, dict.fromkeys(DEVICES, "digits"))]
    lines = drawn(frame(history, JOBS, DEVICES, now=30.0, width=width), width)
    assert max(map(cell_len, lines)) <= width
    assert "EMULATED" in lines[0]
    (digits,) = (line for line in lines if " digits " in line)
    for said in ("running", "2xa100+2xv100+2xt4", "42%", "1234", "2.072", "37 s"):
        assert said in digits, f"{said} is not in {digits}"
    assert len([line for line in lines if line.startswith(tuple(DEVICES))]) == len(DEVICES)
    text = " ".join(lines)
    assert text.count("21") >= 6, "all local batches are there"
    assert "…" not in text, "nothing is cut off"


def test_the_strip_shows_who_had_what_when() -> None:
    history = [(0.0, {"a": "digits"}), (3.0, {"a": "charlm", "b": "digits"}), (5.0, {})]
    styles = marks(["digits", "charlm"])
    rows = strip(history, ["a", "b"], styles, now=6.0, width=10).plain.splitlines()
    #                 seconds -1 to 6
    assert rows[0] == "a  dddcc··"
    assert rows[1] == "b  ···dd··"
    assert rows[2].endswith("now")


@given(
    history=st.lists(
        st.tuples(
            st.integers(0, 200), st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
        ),
        max_size=12,
    ),
    now=st.integers(0, 220),
    width=st.integers(1, 140),
)
def test_every_cell_is_the_newest_holder_of_its_second(
    history: list[tuple[int, dict[str, str]]], now: int, width: int
) -> None:
    ordered = sorted(history, key=lambda each: each[0])
    styles = marks(["x", "y", "z"])
    text = strip(ordered, ["a", "b", "c"], styles, now=now, width=width)
    columns = max(1, min(SPAN, width - 2))
    for device, row in zip("abc", text.plain.splitlines(), strict=False):
        assert len(row) == 2 + columns
        for column, cell in enumerate(row[2:]):
            second = now - (columns - 1 - column)
            expected = " "
            for since, held in ordered:
                if since <= second:
                    expected = held.get(device, "·")
            assert cell == expected


def test_marks_differ_where_names_allow_it() -> None:
    letters = [letter for letter, _ in marks(["digits", "denoise", "d", "table"]).values()]
    assert letters == ["d", "e", "d", "t"]


def test_types_are_counted() -> None:
    assert by_type(["n/a100-0", "m-1/a100-3", "n/local-cpu-12"]) == "2xa100+1xlocal-cpu"
    assert by_type([]) == ""


def test_without_a_terminal_there_is_a_line_for_each_change() -> None:
    console = Console(file=io.StringIO(), width=40)
    with DemoView(DEVICES, console) as view:
        view.show(0.04, [job("charlm", "queued")])
        view.show(1.0, [job("charlm", "queued")])
        view.show(12.34, [job("charlm", "running", "fast/a100-0", "middle/v100-1")])
        moved = job("charlm", "running", "fast/a100-0")
        view.show(13.0, [moved, job("table", "queued")])
        view.show(14.0, [{**moved, "loss": 0.1}, job("table", "queued")])
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "  0.0 s  charlm: queued",
        " 12.3 s  charlm: running on a100-0, v100-1",
        " 13.0 s  charlm: running on a100-0",
        " 13.0 s  table: queued",
    ]
    assert changes([moved], [moved], now=0.0) == []


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_gets_the_view_live(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=40)
    with DemoView(DEVICES, console) as view:
        view.show(0.0, JOBS[:2])
        view.show(2.0, JOBS)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for said in ("\x1b[30;46m", "EMULATED", "highlight", "rescaling"):
        assert said in shown


FINISHED: dict[str, Any] = {
    "name": "charlm",
    "state": "finished",
    "device_types": ["a100", "v100"],
    "mixed": True,
    "rescales": 2,
    "pauses_seconds": [0.31, 0.48],
    "jct_seconds": 61.4,
    "local_batches": [42, 42, 22, 22],
    "step_seconds": 0.0874,
    "predicted_step_seconds": 0.0861,
    "even_step_seconds": 0.1123,
    "loss": {"first": 3.087, "last": 1.96},
    "metrics": {"bits_per_character": 2.894},
    "spans": [
        {"since": 4.2, "devices": DEVICES[:2]},
        {"since": 20.0, "devices": DEVICES[:4]},
        {"since": 65.6, "devices": DEVICES},
    ],
}
BARE: dict[str, Any] = {
    "name": "highlight",
    "state": "finished",
    "device_types": ["a100", "t4"],
    "mixed": True,
    "rescales": 0,
    "pauses_seconds": [],
    "jct_seconds": 9.0,
    "local_batches": [21] * 6,
    "step_seconds": 0.07,
    "predicted_step_seconds": None,
    "even_step_seconds": None,
    "loss": {"first": None, "last": None},
    "void": True,
}


@pytest.mark.parametrize("width", [80, 120])
def test_the_final_table_fits_and_says_all(width: int) -> None:
    lines = drawn(final_table({"emulated": True, "jobs": [FINISHED, BARE]}), width)
    assert max(map(cell_len, lines)) <= width
    for said in (
        "EMULATED",
        "charlm",
        "61 s",
        "4 s 2xa100",
        "20 s 2xa100+2xv100",
        "66 s 2xa100+2xv100+2xt4",
        "predicted 86",
        "measured 87",
        "even 112",
        "rescaled 2x: 0.3 to 0.5 s",
        "loss 3.09",
        "highlight",
        "a100+t4",
        "VOID",
    ):
        assert any(said in line for line in lines), f"{said} is not in {lines}"
    assert "…" not in " ".join(lines), "nothing is cut off"
    if width == 120:
        for said in ("loss 3.09 to 1.96", "bits per character 2.89"):
            assert any(said in line for line in lines)


def test_a_loss_that_is_not_known_is_left_out() -> None:
    lines = " ".join(drawn(final_table({"jobs": [BARE]}), 120))
    assert "loss" not in lines
    assert "predicted" not in lines
