"""Metrics in the text format of Prometheus, version 0.0.4."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from staves.service._facade import Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def exposition(samples: Iterable[Sample]) -> str:
    """Return the samples as text, those of one metric together, in the order of first appearance.

    Raises:
        ValueError: a name that the format does not allow.
    """
    metrics: dict[str, list[Sample]] = {}
    for sample in samples:
        metrics.setdefault(sample.name, []).append(sample)
    lines = []
    for name, group in metrics.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric")
        if group[0].help:
            lines.append(f"# HELP {name} {_escaped(group[0].help)}")
        lines.append(f"# TYPE {name} {group[0].kind}")
        lines += [f"{name}{_labels(sample)} {_number(sample.value)}" for sample in group]
    return "".join(f"{line}\n" for line in lines)


def _labels(sample: Sample) -> str:
    for label in sample.labels:
        if not _LABEL.fullmatch(label):
            raise ValueError(f"{label!r} is no name of a label")
    quoted = (
        f'{label}="{_escaped(value).replace(chr(34), chr(92) + chr(34))}"'
        for label, value in sample.labels.items()
    )
    text = ",".join(quoted)
    return f"{{{text}}}" if text else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
