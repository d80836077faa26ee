"""The figures for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.mixed.judging import error

_ABOUT = """\
# Mixed types: predicted and measured

Written by `python -m benchmarks.mixed --steps {steps} --page docs/mixed.md`.

**Emulated**: how long devices compute and how fast links are is declared in
`benchmarks/mixed/clusters`; processes, gradients, collectives and changes of membership are real.

A job of {batch} samples a step trains on two devices of each type, one type after the other, and
nowhere else. From what it has learned there its steps on mixes are predicted, by the rates that
the service's policies see: the lines of each type, the best split, and the wire of the slowest
ring that one of the mix's types was measured in ([step-time.md](step-time.md)). Then the job is
resized to each mix, and {steps} steps are made there by the trainer's own split. *Measured* is
their median, *error* is predicted over measured, less 1. *Last ring*: the error if, as in earlier
versions, the wire last measured counted for all, whatever its types.

On "boxes" two devices of a type share a node, and no link was used before the first mix: there
the bytes of the gradients over the declared link count.
"""


def page(document: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    about = _ABOUT.format(batch=document["batch"], steps=document["steps"])
    alone = [
        f"| {_links(case)} | {pair} | {1e3 * own['predicted_seconds']:.1f} ms"
        f" | {1e3 * own['measured_seconds']:.1f} ms | {error(own):+.1%} |"
        for case in document["clusters"].values()
        for pair, own in case["alone"].items()
    ]
    return "\n".join(
        [
            about,
            table(document),
            verdict(document),
            "\n## What was learned from\n",
            "| links | devices | fitted | measured | error |",
            "| --- | --- | --- | --- | --- |",
            *alone,
            "",
        ]
    )


def table(document: Mapping[str, Any]) -> str:
    """Return all mixes as a Markdown table."""
    rows = [row for name, case in document["clusters"].items() for row in _rows(name, case)]
    return "\n".join(
        [
            "| cluster | links | mix | split | predicted | measured | error | last ring |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def verdict(document: Mapping[str, Any]) -> str:
    """Return in words what the errors come to."""
    own, last = (document["errors"][way] for way in ("predicted", "last_ring"))
    again = sum(case["void_runs"] for case in document["clusters"].values())
    void = f" Void, since too many steps were late, and made again: {again}." if again else ""
    void += " The last ones are void, too." if document["void"] else ""
    return (
        f"{document['within']} of {document['mixes']} mixes are within {document['limit']:.0%}:"
        f" the median error is {own['median']:.1%}, the worst {own['worst']:.1%}"
        f" (last ring: {last['median']:.1%} and {last['worst']:.1%}).{void}"
    )


def _rows(name: str, case: Mapping[str, Any]) -> Iterator[str]:
    for mix, own in case["mixes"].items():
        split = "; ".join(f"{k} {','.join(map(str, b))}" for k, b in own["local_batches"].items())
        yield (
            f"| {name} | {_links(case)} | {mix} | {split} | {1e3 * own['predicted_seconds']:.1f} ms"
            f" | {1e3 * own['measured_seconds']:.1f} ms | {error(own):+.1%}"
            f" | {error(own, 'last_ring'):+.1%} |"
        )


def _links(case: Mapping[str, Any]) -> str:
    speeds = case["links_bits_per_second"].items()
    return ", ".join(f"{kind} {_speed(bits)}" for kind, bits in speeds)


def _speed(bits: float) -> str:
    return f"{bits / 1e9:g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:g} Mbit/s"
