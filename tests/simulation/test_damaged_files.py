"""Fifty damaged variants of every format: an error with its place, or a counted drop."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from staves.errors import InputError
from staves.simulation import Workload
from staves.simulation.readers import FORMATS, Contents, read_file
from tests.simulation.samples import JSON_SAMPLES, SAMPLES, Sample

VARIANTS = 50
JUNK = (b",", b"\n", b'"', b"\t", "—".encode(), b"0", b"-")


def test_every_format_has_a_sample(tmp_path: Path) -> None:
    seen = {sample.format for sample in SAMPLES} | JSON_SAMPLES.keys()
    assert seen == {one.name for one in FORMATS}
    for sample in SAMPLES:
        assert read_file(written(tmp_path, sample.file, sample.text)).format.name == sample.format
    for name, text in JSON_SAMPLES.items():
        assert read_file(written(tmp_path, "file.json", text)).format.name == name


def written(folder: Path, name: str, text: str | bytes) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


class Damaged:
    """A sample, one of whose lines is chosen to be damaged."""

    def __init__(self, sample: Sample, draw: random.Random) -> None:
        self.sample, self.draw = sample, draw
        self.lines = sample.text.splitlines()
        self.first = 1 if sample.header else 0
        self.index = draw.randrange(self.first, len(self.lines))
        self.cells = self.lines[self.index].split(sample.mark)

    @property
    def line(self) -> int:
        return self.index + 1

    def with_cell(self, position: int, text: str) -> str:
        cells = list(self.cells)
        cells[position] = text
        return self.with_line(self.sample.mark.join(cells))

    def with_line(self, text: str) -> str:
        return "\n".join([*self.lines[: self.index], text, *self.lines[self.index + 1 :]]) + "\n"

    def a_number(self) -> int:
        filled = [n for n in self.sample.numbers if self.cells[n]]
        return self.draw.choice(filled)


def refused(folder: Path, sample: Sample, text: str | bytes, *places: str) -> str:
    file = written(folder, sample.file, text)
    with pytest.raises(InputError) as error:
        read_file(file)
    assert error.value.hint
    for place in places:
        assert f"{file}{place}" in error.value.message, error.value.message
    return error.value.message


def accepted(folder: Path, sample: Sample, text: str) -> Contents:
    return read_file(written(folder, sample.file, text)).contents


def what(contents: Contents) -> object:
    """Return what is listed, without the counts."""
    return {
        name: sorted(value, key=repr) if isinstance(value, tuple) else value
        for name in ("requests", "cells", "cluster", "times", "devices")
        if (value := getattr(contents, name, None)) is not None
    }


def cut(folder: Path, sample: Sample, draw: random.Random) -> None:
    """A line ends before its last cell."""
    damaged = Damaged(sample, draw)
    if len(damaged.cells) == 1:
        refused(folder, sample, "", ":1:")
        return
    kept = draw.randrange(1, len(damaged.cells))
    text = sample.mark.join(damaged.cells[:kept])
    lines = [*damaged.lines[: damaged.index], text]
    if sample.header or damaged.index:
        refused(folder, sample, "\n".join(lines), f":{damaged.line}:")
    else:  # nothing whole stands above it, that could tell the format
        refused(folder, sample, "\n".join(lines), ":1:")


def wrong_columns(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    if not sample.header:
        refused(folder, sample, damaged.with_line(damaged.lines[damaged.index] + "\tmore"), ":")
        return
    optional = next(one for one in FORMATS if one.name == sample.format).optional
    names = damaged.lines[0].split(",")
    wanted = [n for n, name in enumerate(names) if name and name not in optional]
    if sample.format in ("Lambda throughputs", "Sailor availability, CSV", "Helios cluster sizes"):
        wanted = [1] if sample.format != "Helios cluster sizes" else [0, len(names) - 1]
    if sample.format == "ElasticFlow throughputs":
        wanted = [1, 2, 3]
    if sample.format == "Tiresias job list":
        wanted = [0, 1, 2, 4, 5]
    if sample.format == "openb pod list":
        wanted = [0, 1, 2, 3, 4, 8, 9, 10]
    names[draw.choice(wanted)] = "surprise"
    refused(folder, sample, "\n".join([",".join(names), *damaged.lines[1:]]), ":1:")


def negative(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    told = refused(folder, sample, damaged.with_cell(damaged.a_number(), "-7"), f":{damaged.line}:")
    assert "-7" in told or "is no list" in told


def not_a_number(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    position = damaged.a_number()
    text = damaged.with_cell(position, "NaN")
    if position in sample.holes:
        before = accepted(folder, sample, sample.text)
        after = accepted(folder, sample, text)
        assert dropped(after) > dropped(before) or what(after) == what(before)
    else:
        refused(folder, sample, text, f":{damaged.line}:")


def words(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    refused(folder, sample, damaged.with_cell(damaged.a_number(), "soon"), f":{damaged.line}:")


def huge(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    text = draw.choice(["1e999", "1e308", "Infinity"])
    refused(folder, sample, damaged.with_cell(damaged.a_number(), text), f":{damaged.line}:")


def not_utf8(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    text = damaged.with_line(damaged.lines[damaged.index] + "\x00").encode()
    refused(folder, sample, text.replace(b"\x00", b"\xff"), f":{damaged.line}:", ":")


def unsorted(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    if sample.time is None or len(damaged.lines) < damaged.first + 2:
        return
    body = damaged.lines[damaged.first :][::-1]
    text = "\n".join([*damaged.lines[: damaged.first], *body]) + "\n"
    before, after = accepted(folder, sample, sample.text), accepted(folder, sample, text)
    assert any("come before the line above" in one.what for one in after.counted)
    assert nameless(after) == nameless(before)


def nameless(contents: Contents) -> object:
    """Return what is listed, but for names that come from lines."""
    if isinstance(contents, Workload):
        return sorted(re.sub(r"name='job-\d+'", "", repr(one)) for one in contents.requests)
    return what(contents)


def repeated(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    line = damaged.lines[damaged.index]
    text = damaged.with_line(f"{line}\n{line}")
    if sample.format.startswith("cluster of"):
        refused(folder, sample, text, ":3:")
        return
    before, after = accepted(folder, sample, sample.text), accepted(folder, sample, text)
    if sample.repeats:
        return
    assert sum(one.lines for one in after.counted) > sum(one.lines for one in before.counted)
    if sample.header:
        assert nameless(after) == nameless(before)


def unknown_type(folder: Path, sample: Sample, draw: random.Random) -> None:
    damaged = Damaged(sample, draw)
    if sample.types is None:
        return
    before = accepted(folder, sample, sample.text)
    after = accepted(folder, sample, damaged.with_cell(sample.types, "Abacus 9000"))
    assert dropped(after) > dropped(before) or what(after) == what(before)
    assert any("unknown" in one.what for one in after.counted if one.dropped)


def dropped(contents: Contents) -> int:
    return sum(one.lines for one in contents.counted if one.dropped)


def emptied(folder: Path, sample: Sample, draw: random.Random) -> None:
    head = sample.text.splitlines()[0] if sample.header else ""
    refused(folder, sample, head, ":")


KINDS: tuple[Callable[[Path, Sample, random.Random], None], ...] = (
    cut,
    wrong_columns,
    negative,
    not_a_number,
    words,
    huge,
    not_utf8,
    unsorted,
    repeated,
    unknown_type,
    emptied,
)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample.file))
def test_damaged_lines_are_told_or_counted(tmp_path: Path, sample: Sample) -> None:
    for seed in range(VARIANTS):
        draw = random.Random(f"{sample.file} {seed}")
        KINDS[seed % len(KINDS)](tmp_path, sample, draw)


@pytest.mark.parametrize("name", JSON_SAMPLES)
def test_damaged_json_is_told(tmp_path: Path, name: str) -> None:
    """Cut anywhere, it is no JSON; a value of another kind is named."""
    text = JSON_SAMPLES[name]
    for seed in range(VARIANTS):
        draw = random.Random(f"{name} {seed}")
        if seed % 3 == 0:
            damaged: str | bytes = text[: draw.randrange(1, len(text.rstrip()))]
        elif seed % 3 == 1:
            damaged = text.encode()[: draw.randrange(1, len(text))] + b"\xff"
        else:
            damaged = json.dumps(_with_wrong_value(json.loads(text), draw))
        file = written(tmp_path, "file.json", damaged)
        with pytest.raises(InputError) as error:
            read_file(file)
        assert str(file) in error.value.message
        assert error.value.hint


def _with_wrong_value(document: object, draw: random.Random) -> object:
    wrong: object = draw.choice([None, "soon", -3, True, float("nan"), {}])
    if isinstance(document, list):
        document[draw.randrange(len(document))]["GPUs"] = wrong
    elif isinstance(document, dict) and "philly" in document:
        document["philly"] = [str(wrong)]
    elif isinstance(document, dict):
        jobs = document[draw.choice(sorted(document))]
        jobs[draw.choice(sorted(jobs))]["null"] = wrong
    return document


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample.file))
def test_junk_ends_in_no_traceback(tmp_path: Path, sample: Sample) -> None:
    whole = sample.text.encode()
    for seed in range(VARIANTS):
        draw = random.Random(f"junk {sample.file} {seed}")
        junk = draw.choice([draw.randbytes(3), *JUNK])
        at = draw.randrange(len(whole))
        file = written(tmp_path, sample.file, whole[:at] + junk + whole[at + draw.randrange(3) :])
        told = str(file)
        try:
            read_file(file)
        except InputError as error:
            told = error.message
        assert str(file) in told
