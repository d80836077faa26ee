"""The figures for people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.links.judging import preferred
from benchmarks.mixed.judging import error

_ABOUT = """\
# A slow link: measured, priced, and what came of it

Written by `python -m benchmarks.links --steps {steps} --page docs/links.md`.

Two nodes, network namespaces of one machine, are joined by a bridge whose ports are shaped to
{shaped} each way (`tc ... tbf`). How long devices compute is **emulated**; the link is not: none is
declared, and gradients really go over it.

1. **Measured.** The link is measured as `staves links` does: two ranks all-reduce buffers of
   growing size, and a line is fitted. Found: **{speed}**, latency {latency}.
2. **Learned.** A job trains on the two devices of the node "left", and nowhere else.
3. **Predicted.** From both, steps on one node (two devices) and on two (four devices) are predicted
   by the rates that the service's policies see.
4. **Measured.** The job then trains on the two devices of "right", and on all four: {steps} steps
   each, of which the median counts.

*Error* is predicted over measured, less 1. *Without the link*: what would be predicted if it had
not been measured, from the gradients' time within a node alone.
"""


def page(document: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    link = document["link"]
    about = _ABOUT.format(
        steps=document["steps"],
        shaped=_speed(document["shaped_bits_per_second"]),
        speed=_speed(link["bits_per_second"]),
        latency=f"{1e3 * link['latency_seconds']:.2f} ms",
    )
    samples = [
        f"| {size / 1024:g} KiB | {1e3 * seconds:.2f} ms | {_speed(8 * size / seconds)} |"
        for size, seconds in link["samples"]
    ]
    loads = [case["load"] for case in document["cases"]]
    return "\n".join(
        [
            about,
            table(document),
            verdict(document),
            f"\nLoad averages of this machine, {os.cpu_count()} cores: {link['load']:.1f} when the"
            f" link was measured, {min(loads):.1f} to {max(loads):.1f} after the cases.",
            "\n## The link\n",
            "| buffer | all-reduce of two ranks | speed |",
            "| --- | --- | --- |",
            *samples,
            "\n## The wire within a node\n",
            "| gradients | their all-reduce within one node |",
            "| --- | --- |",
            *_rings(document),
            "",
        ]
    )


def table(document: Mapping[str, Any]) -> str:
    """Return all cases as a Markdown table."""
    rows = [row for case in document["cases"] for row in _rows(case)]
    return "\n".join(
        [
            "| gradients | batch | where | predicted | measured | error | without the link |"
            " preferred | faster |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def verdict(document: Mapping[str, Any]) -> str:
    """Return in words what the errors come to."""
    own, blind = (document["ways"][way] for way in ("predicted", "without_link"))
    cases, steps = len(document["cases"]), document["steps_predicted"]
    again = sum(case["void_runs"] for case in document["cases"])
    void = f" Void, since too many steps were late, and made again: {again}." if again else ""
    void += " The last runs of those marked so are void, too." if document["void"] else ""
    return (
        f"{own['within']} of {steps} steps are predicted within {document['limit']:.0%}: the"
        f" median error is {own['median']:.1%}, the worst {own['worst']:.1%}. The faster place is"
        f" preferred in {own['preferred_rightly']} of {cases} cases. Without the link:"
        f" {blind['within']} of {steps}, the worst error {blind['worst']:.1%}, and"
        f" {blind['preferred_rightly']} of {cases} cases.{void}"
    )


def _rows(case: Mapping[str, Any]) -> Iterator[str]:
    for name, place in case["places"].items():
        chosen, faster = (preferred(case, way) == name for way in ("predicted", "measured"))
        yield (
            f"| {_size(case)} | {case['batch']} | {name} | {_ms(place['predicted_seconds'])}"
            f" | {_ms(place['measured_seconds'])}{' (void)' if case['void'] else ''}"
            f" | {error(place):+.1%}"
            f" | {_ms(place['without_link_seconds'])} | {'yes' if chosen else ''}"
            f" | {'yes' if faster else ''} |"
        )


def _rings(document: Mapping[str, Any]) -> Iterator[str]:
    for case in document["cases"]:
        yield f"| {_size(case)}, batch {case['batch']} | {_ms(case['one_node_ring_seconds'])} |"


def _size(case: Mapping[str, Any]) -> str:
    return f"{case['gradient_bytes'] / 1e6:.1f} MB"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def _speed(bits: float) -> str:
    return f"{bits / 1e9:.3g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.4g} Mbit/s"
