from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from staves.documents import Document, Items, Seconds, parse, read
from staves.errors import InputError


class Inner(Document):
    size: int = 1
    share: float = 0.5
    wait: Seconds = 0.0


class Other(Document):
    colour: str


class Outer(Document):
    name: str
    inner: Inner | None = None
    listed: list[Inner] = Field([])
    several: Items[int] = ()
    nested: dict[str, Items[Inner]] = Field({})
    mode: Literal["fast", "slow"] = "fast"
    either: int | list[str] | None = None
    models: dict[str, Inner | Other] = Field({})
    flag: bool = True
    more: float = Field(0.0, ge=0, le=2)


def error_of(text: str, *, json_only: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        parse(text, Outer, source="f", json_only=json_only)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_good_document() -> None:
    outer = parse(
        "name: x\nseveral: [1, 2]\nnested: {a: [{size: 3}]}\neither: [p]\nmodels: {m: {colour: c}}",
        Outer,
        source="f",
    )
    assert outer.several == (1, 2)
    assert outer.nested["a"] == (Inner(size=3),)
    assert outer.either == ["p"]
    assert outer.models["m"] == Other(colour="c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f: is empty, not a mapping of keys (keys: name, inner,"),
        ("# only a comment", "f: is empty"),
        ("[1]", "f: holds a list, not a mapping"),
        ("3", "f: holds 3, not a mapping"),
        ("{}", "f: name: is missing (add this key)"),
        ("nmae: x", "f: nmae: unknown key [and 1 more] (did you mean 'name'?)"),
        ("name: x\nzzz: 1", "f: zzz: unknown key (known: either, flag,"),
        ("name: 3", "f: name: must be text, not 3 (put it in quotes)"),
        ("name:", "f: name: must be text, not nothing"),
        ("name: x\ninner: {siez: 3}", "f: inner.siez: unknown key (did you mean 'size'?)"),
        ("name: x\ninner: 3", "f: inner: must be a mapping of keys, not 3 (keys: size, share,"),
        ("name: x\nlisted: [{}, {size: x}]", "f: listed[1].size: must be a whole number, not 'x'"),
        ("name: x\ninner: {size: '3'}", "not '3' (take the quotes off)"),
        ("name: x\ninner: {size: 1.5}", "f: inner.size: must be a whole number, not 1.5"),
        ("name: x\ninner: {size: true}", "f: inner.size: must be a whole number, not true"),
        ("name: x\ninner: {share: .nan}", "f: inner.share: must be finite (give a number"),
        ("name: x\ninner: {share: .inf}", "f: inner.share: must be finite"),
        ("name: x\ninner: {share: []}", "f: inner.share: must be a number, not a list"),
        ("name: x\ninner: {wait: 3}", "f: inner.wait: 3 is not a quantity; write a number"),
        ("name: x\nlisted: {}", "f: listed: must be a list, not a mapping"),
        ("name: x\nseveral: 3", "f: several: must be a list, not 3"),
        ("name: x\nseveral: ['3']", "f: several[0]: must be a whole number, not '3'"),
        ("name: x\nnested: {a: [{seiz: 1}]}", "f: nested.a[0].seiz: unknown key (did you mean"),
        ("name: x\nnested: {3: []}", "f:2:10: a key must be text, not 3 (put it in quotes: '3')"),
        ("name: x\nmode: fsat", "f: mode: must be 'fast' or 'slow', not 'fsat'"),
        ("name: x\neither: 1.5", "f: either: must be a whole number, not 1.5; or must be a list"),
        ("name: x\neither: [1]", "f: either[0]: must be text, not 1 (put it in quotes)"),
        ("name: x\nmodels: {m: {color: c}}", "f: models.m.color: unknown key"),
        ("name: x\nflag: 1", "f: flag: must be true or false, not 1"),
        (
            "name: x\non: 1",
            "f:2:1: a key must be text, not on, which YAML reads as true (put it in quotes: 'on')",
        ),
        (
            "name: x\nmodels: {yes: {}}",
            "f:2:10: a key must be text, not yes, which YAML reads as true",
        ),
        (
            "name: x\nmodels: {~: {}}",
            "f:2:10: a key must be text, not ~, which YAML reads as nothing",
        ),
        ("name: x\n? \n: 1", "f:2:2: a key must be text, but it is empty (write a name)"),
        (
            "name: x\nmodels: {2.5: {}}",
            "f:2:10: a key must be text, not 2.5 (put it in quotes: '2.5')",
        ),
        ("name: x\nname: y", "f:2:1: the key 'name' stands twice"),
        ("name: x\ninner: {size: 1, size: 2}", "f:2:18: the key 'size' stands twice"),
        ("name: [x", "f:1:9: not YAML: expected"),
        ("name: x\n\tb: 1", "f:2:1: not YAML: found character"),
        ("name: x: y", "f:1:8: not YAML: mapping values are not allowed"),
        ("name: x\n---\nname: y", "f:2:1: not YAML: but found another document"),
        ("name: *a", "f:1:7: not YAML: found undefined alias"),
        ("name: !!python/object:os.system x", "f:1:7: not YAML: could not determine"),
        ("name: \x00", "f:1:7: not YAML: the control character '\\x00' (take it out"),
        ("name: x\nflag: !!timestamp 2024-13-45", "f:2:7: '2024-13-45' is no timestamp (take the"),
        ("name: x\nflag: !!timestamp x", "f:2:7: 'x' is no timestamp"),
        ("name: x\nflag: !!int x", "f:2:7: 'x' is no int"),
        ("name: x\nflag: !!float x", "f:2:7: 'x' is no float"),
        ("name: x\nflag: !!bool x", "f:2:7: 'x' is no bool"),
        ("name: x\nflag: " + "9" * 1001, "f:2:7: a number of 1001 digits (shorten it)"),
        ("name: x\ninner: {size: 1:30}", "f: inner.size: must be a whole number, not '1:30'"),
        ("name: x\ninner: {share: 1:30.5}", "f: inner.share: must be a number, not '1:30.5'"),
        ("name: x\ninner: {size: 1_000}", "f: inner.size: must be a whole number, not '1_000'"),
        ("name: x\ninner: {size: 0b11}", "f: inner.size: must be a whole number, not '0b11'"),
        ('"a\\nb": 1', "f: 'a\\nb': unknown key"),
        ('name: x\nmodels: {"\\e[31m": 1}', "f: models.'\\x1b[31m': must be a mapping"),
        ('name: x\nmodels: {"": 1}', "f: models.'': must be a mapping"),
        (f"? {'k' * 5000}\n: 1", f"f: '{'k' * 28}...{'k' * 28}': unknown key"),
        ('name: x\nmode: "a\\nb"', "f: mode: must be 'fast' or 'slow', not 'a\\nb' (choose one of"),
        ("name: x\nmore: -1", "f: more: must be at least 0, not -1 (raise it)"),
        ("name: x\nmore: 2.5", "f: more: must be at most 2, not 2.5 (lower it)"),
        ("? [a]\n: b", "f:1:3: a key must be text, not a list (write a name)"),
        ("[" * 3000, "f: not YAML: nested too deep"),
        ("name: &a [*a]", "f: name: must be text, not a list"),
    ],
)
def test_one_line_says_what_is_wrong(text: str, expected: str) -> None:
    assert expected in error_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "x",}', "f:1:14: not JSON: "),
        ('{"name": "x", "name": "y"}', "f:1:15: the key 'name' stands twice (keep one"),
        (
            '{"name": "x",\n "inner": {"a": [{"b": "a:{", "c": 1}, {"b": 1,\n"b": 2}]}}',
            "f:3:1: the key",
        ),
        ('{"a\\nb": 1, "a\\u000ab": 2}', "f:1:13: the key 'a\\nb' stands twice"),
        ('{"name": "x", "inner": {"share": NaN}}', "f: inner.share: must be finite"),
        ('{"name": "x", "inner": {"share": 1e999}}', "f: inner.share: must be finite"),
        ('{"name": ' + "9" * 5000 + "}", "f:1:10: a number of 5000 digits (shorten it)"),
        ("[" * 100_000, "f: not JSON: nested too deep"),
        ("name: x", "f:1:1: not JSON: Expecting value"),
        ("", "f:1:1: not JSON: Expecting value"),
        ("null", "f: is empty"),
    ],
)
def test_json(text: str, expected: str) -> None:
    assert error_of(text, json_only=True).startswith(expected)


def test_a_huge_whole_number_is_no_float() -> None:
    text = "name: x\ninner: {share: " + "9" * 400 + "}"
    assert error_of(text).startswith("f: inner.share: ")


@pytest.mark.parametrize(
    ("text", "value"),
    [("010", 10), ("0", 0), ("+7", 7), ("-08", -8), ("0o10", 8), ("0x1F", 31), ("00", 0)],
)
def test_whole_numbers_are_those_of_yaml_1_2(text: str, value: int) -> None:
    outer = parse(f"name: x\ninner: {{size: {text}}}", Outer, source="f")
    assert outer.inner == Inner(size=value)


def test_dates_are_text() -> None:
    for text in ("2024-13-45", "2024-01-02", "1:30", "1_0"):
        assert parse(f"name: {text}", Outer, source="f").name == text


@pytest.mark.parametrize("number", ["1e-3", "1.e-3", ".1e-2", "1E-3", "+1e-3", "0.001"])
def test_exponents_need_no_point(number: str) -> None:
    outer = parse(f"name: x\ninner: {{share: {number}}}", Outer, source="f")
    assert outer.inner is not None
    assert outer.inner.share == pytest.approx(0.001)


def test_anchors_and_merge_keys() -> None:
    text = "name: x\ninner: &i {size: 7}\nlisted: [*i, {<<: *i, share: 0.1}, {<<: *i, size: 8}]"
    outer = parse(text, Outer, source="f")
    assert [inner.size for inner in outer.listed] == [7, 7, 8]


def test_read_chooses_by_the_ending(tmp_path: Path) -> None:
    for name, text in (("a.yaml", "name: x"), ("a.json", '{"name": "x"}'), ("a", "name: x")):
        (tmp_path / name).write_text(text)
        assert read(tmp_path / name, Outer).name == "x"
    (tmp_path / "b.JSON").write_text("name: x")
    with pytest.raises(InputError, match="not JSON"):
        read(str(tmp_path / "b.JSON"), Outer)


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_a_byte_order_mark_is_no_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b'\xef\xbb\xbf{"name": "x"}')
    assert read(tmp_path / name, Outer).name == "x"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"name: caf\xe9")
    (tmp_path / "file").write_text("name: x")
    for path, expected in (
        (tmp_path / "absent.yaml", "no such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "latin", "byte 9 is not UTF-8"),
        (tmp_path / "file" / "below", "Not a directory"),
    ):
        with pytest.raises(InputError) as caught:
            read(path, Outer)
        assert str(caught.value).startswith(f"{path}: {expected}")


YAML = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(list(Outer.model_fields) + list(Inner.model_fields)) | st.integers(),
            inner,
            max_size=4,
        )
    ),
)


@given(YAML)
def test_any_value_is_read_or_refused_in_one_line(value: object) -> None:
    message = "f: "
    try:
        parse(yaml.safe_dump(value, allow_unicode=True), Outer, source="f")
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert message.startswith("f:")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for json_only in (False, True):
        with pytest.raises(InputError) as caught:
            parse(text, Outer, source="f", json_only=json_only)
        assert "\n" not in str(caught.value)
