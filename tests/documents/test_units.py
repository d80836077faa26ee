from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from staves.documents import BitsPerSecond, Bytes, Document, Seconds

SECONDS = TypeAdapter[float](Seconds)
BYTES = TypeAdapter[int](Bytes)
BITS = TypeAdapter[float](BitsPerSecond)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("0.6ms", 0.0006),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("7us", 7e-6),
        ("7µs", 7e-6),
        ("7 ns", 7e-9),
        (" 1e-3s ", 0.001),
        (".5s", 0.5),
        ("2.s", 2.0),
        (0, 0.0),
        (0.0, 0.0),
    ],
)
def test_seconds(text: object, seconds: float) -> None:
    assert SECONDS.validate_python(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GB", 24 * 10**9), ("16GiB", 16 * 2**30), ("0.5kB", 500), ("1.5 MiB", 3 * 2**19)],
)
def test_bytes(text: str, size: int) -> None:
    assert BYTES.validate_python(text) == size


@pytest.mark.parametrize(
    ("text", "speed"), [("200Mbit", 2e8), ("10Gbit/s", 1e10), ("9.6kbit", 9600.0)]
)
def test_bits_per_second(text: str, speed: float) -> None:
    assert BITS.validate_python(text) == speed


WRONG = [
    30, 1.5, "30", "", "s", "-1s", "nan", "nans", "infs", "1e999s", "1 2s", "3parsecs", "3S",
    float("nan"), float("inf"), True, False, None, [], {}, "٣s", "0x3s", "1e5",
]  # fmt: skip


@pytest.mark.parametrize("value", WRONG)
def test_wrong_seconds(value: object) -> None:
    with pytest.raises(ValidationError):
        SECONDS.validate_python(value)


@pytest.mark.parametrize("value", [0, 40, "40", "40Gb", "40gb", "-4GB", "4s", True, 4e9])
def test_wrong_bytes(value: object) -> None:
    with pytest.raises(ValidationError):
        BYTES.validate_python(value)


@pytest.mark.parametrize("value", [0, 200, "200", "200MB", "200mbit", "-1Mbit"])
def test_wrong_bits(value: object) -> None:
    with pytest.raises(ValidationError):
        BITS.validate_python(value)


@given(st.floats(0, 1e12))
def test_what_is_written_in_seconds_reads_back_exactly(seconds: float) -> None:
    assert SECONDS.validate_python(f"{seconds!r}s") == seconds


@given(st.integers(0, 2**53))
def test_what_is_written_in_bytes_reads_back_exactly(size: int) -> None:
    assert BYTES.validate_python(f"{size}B") == size


class _All(Document):
    time: Seconds
    size: Bytes
    link: BitsPerSecond


@given(st.from_regex(r"\A[+-]?[0-9.]{1,4}(e-?[0-9])? ?(ms|s|GB|kB|Mbit|Mbit/s|x|)\Z"))
def test_the_schema_accepts_what_the_reader_accepts(text: str) -> None:
    properties = _All.model_json_schema()["properties"]
    for name, adapter in (("time", SECONDS), ("size", BYTES), ("link", BITS)):
        try:
            adapter.validate_python(text)
            accepted = True
        except ValidationError:
            accepted = False
        matches = re.search(properties[name]["pattern"], text) is not None
        assert accepted == matches or text.startswith("-")  # "-0s" reads as zero
