"""What is exposed reads back, by a parser of its own, as what it was."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.service._exposition import exposition
from staves.service._facade import Sample

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,5}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True), st.text(), max_size=3
)
SAMPLES = st.builds(
    Sample, NAMES, st.floats(), st.sampled_from(["gauge", "counter"]), st.text(), LABELS
)


def unescaped(text: str) -> str:
    return re.sub(r'\\([\\n"])', lambda m: "\n" if m[1] == "n" else m[1], text)


def parsed(text: str) -> list[tuple[str, dict[str, str], float]]:
    rows = []
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            continue
        match = re.fullmatch(r'([^{ ]+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)', line, re.S)
        assert match, line
        labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "", re.S)
        rows.append((match[1], {k: unescaped(v) for k, v in labels}, float(match[3])))
    return rows


@given(st.lists(SAMPLES, max_size=6))
def test_it_reads_back(samples: list[Sample]) -> None:
    def key(row: tuple[str, dict[str, str], float]) -> str:
        return repr(row)  # NaN is not equal to itself

    want = [(s.name, dict(s.labels), s.value) for s in samples]
    assert sorted(map(key, parsed(exposition(samples)))) == sorted(map(key, want))


@given(st.lists(SAMPLES, max_size=6))
def test_metrics_stand_together_and_have_one_type(samples: list[Sample]) -> None:
    lines = exposition(samples).split("\n")
    assert sum(line.startswith("# TYPE ") for line in lines) == len({s.name for s in samples})
    names = [name for name, _, _ in parsed(exposition(samples))]
    runs = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
    assert len(runs) == len(set(runs))


def test_an_example() -> None:
    samples = [
        Sample("staves_queue_seconds", math.inf, help="Wait.\nOf the first."),
        Sample("staves_starts_total", 3.0, "counter", labels={"type": 'a"1\\'}),
    ]
    assert exposition(samples) == (
        "# HELP staves_queue_seconds Wait.\\nOf the first.\n"
        "# TYPE staves_queue_seconds gauge\n"
        "staves_queue_seconds +Inf\n"
        "# TYPE staves_starts_total counter\n"
        'staves_starts_total{type="a\\"1\\\\"} 3.0\n'
    )


@pytest.mark.parametrize("sample", [Sample("a b", 1), Sample("a", 1, labels={"b-c": ""})])
def test_wrong_names_are_refused(sample: Sample) -> None:
    with pytest.raises(ValueError, match="is no name"):
        exposition([sample])
