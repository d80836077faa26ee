"""What a file holds, as a JSON document: jobs, demand, durations, types, what was dropped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staves.simulation._availability import Availability
from staves.simulation._counted import Counted
from staves.simulation._workload import Request, Workload
from staves.simulation.readers import NodeList, Recognised

BUCKETS = 48
"""Of a curve of demand."""

_MOST_NAMES = 8  # of applications that a document lists
_SHARES = (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def describe(found: Recognised) -> dict[str, Any]:
    """Return what a file holds; times in seconds.

    `dropped` and `noted` say how many lines there were with which trouble, and the first of them;
    `assumed` what the file does not say and its reader takes for granted.
    """
    contents = found.contents
    if isinstance(contents, Workload):
        about = _jobs(contents.requests)
    elif isinstance(contents, NodeList):
        about = _nodes(contents)
    elif isinstance(contents, Availability):
        about = _availability(contents)
    else:
        about = {
            "jobs": len({cell.job for cell in contents.cells}),
            "cells": len(contents.cells),
            "types": _counts(cell.device_type for cell in contents.cells),
            "devices": _sizes(cell.devices for cell in contents.cells),
        }
    return {
        "name": contents.name,
        "format": found.format.name,
        "holds": found.format.holds,
        **about,
        "dropped": _troubles(contents.counted, dropped=True),
        "noted": _troubles(contents.counted, dropped=False),
        "assumed": list(contents.assumed),
    }


def _troubles(counted: Sequence[Counted], *, dropped: bool) -> list[dict[str, Any]]:
    return [
        {"lines": one.lines, "what": one.what, "first_line": one.first or None}
        for one in counted
        if one.dropped is dropped
    ]


def _jobs(requests: Sequence[Request]) -> dict[str, Any]:
    times = [request.time for request in requests]
    seconds = [request.seconds for request in requests if request.seconds is not None]
    named = Counter(name for request in requests for name in request.types or ("any",))
    return {
        "jobs": len(requests),
        "span_seconds": max(times) - min(times),
        "devices": _sizes(request.devices for request in requests),
        "applications": _counts(request.application for request in requests),
        "types": dict(sorted(named.items())),
        "tenants": len({request.tenant for request in requests} - {""}),
        "deadlines": sum(math.isfinite(request.deadline) for request in requests),
        "fractions": sum(request.share < 1 for request in requests),
        "durations_seconds": _spread(seconds),
        "device_seconds": sum(r.devices * r.seconds for r in requests if r.seconds is not None)
        if seconds
        else None,
        "demand": demand(requests),
    }


def demand(requests: Sequence[Request], buckets: int = BUCKETS) -> dict[str, Any]:
    """Return the mean number of devices wanted in each of equal stretches of time.

    Where durations are known: by jobs that all run as they come, for as long as they say. Else by
    those that come in the stretch.

    Args:
        requests: the jobs, one at least.
        buckets: how many stretches.
    """
    start = min(request.time for request in requests)
    known = all(request.seconds is not None for request in requests)
    ends = [request.time + (request.seconds or 0.0) for request in requests]
    edges = np.linspace(start, max(max(ends), start + 1.0), buckets + 1)
    width = float(edges[1] - edges[0])
    devices = np.array([request.devices for request in requests], dtype=np.float64)
    since = np.array([request.time for request in requests])
    if known:
        area = _area(since, devices, edges) - _area(np.array(ends), devices, edges)
        curve = np.diff(area) / width
    else:
        index = np.minimum(((since - start) / width).astype(np.int64), buckets - 1)
        curve = np.bincount(index, weights=devices, minlength=buckets).astype(np.float64)
    return {
        "of": "jobs that run as they come" if known else "jobs that come",
        "start_seconds": start,
        "stretch_seconds": width,
        "devices": [round(float(value), 3) for value in curve],
        "peak": float(curve.max()),
        "mean": float(curve.mean()),
    }


def _area(
    at: NDArray[np.float64], height: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the area until each edge below steps up by `height` at `at`."""
    order = np.argsort(at)
    total = np.append(0.0, np.cumsum(height[order]))
    moment = np.append(0.0, np.cumsum((height * at)[order]))
    before = np.searchsorted(at[order], edges, "right")
    area: NDArray[np.float64] = total[before] * edges - moment[before]
    return area


def _nodes(listed: NodeList) -> dict[str, Any]:
    nodes = listed.cluster.nodes
    return {
        "nodes": len(nodes),
        "devices": listed.cluster.total,
        "types": dict(listed.cluster.configuration),
        "node_sizes": _sizes(sum(node.devices.values()) for node in nodes),
    }


def _availability(trace: Availability) -> dict[str, Any]:
    weights = np.diff(np.array(trace.times))
    types = {}
    for name, counts in trace.devices.items():
        mean = np.average(counts[:-1], weights=weights) if len(counts) > 1 else counts[0]
        types[name] = {"least": min(counts), "most": max(counts), "mean": float(mean)}
    return {"span_seconds": trace.times[-1], "changes": len(trace.times) - 1, "types": types}


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = np.sort(np.array(values, dtype=np.float64))
    result = {"least": float(ordered[0])}
    for name, share in _SHARES:
        result[name] = float(ordered[max(0, int(np.ceil(share * len(ordered))) - 1)])
    return {**result, "most": float(ordered[-1]), "mean": float(ordered.mean())}


def _sizes(counts: Iterable[int]) -> dict[str, int]:
    return {str(size): number for size, number in sorted(Counter(counts).items())}


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Return the most frequent names; the rest are counted together."""
    counted = Counter(names).most_common()
    result = dict(counted[:_MOST_NAMES])
    if rest := counted[_MOST_NAMES:]:
        result[f"and {len(rest)} more"] = sum(number for _, number in rest)
    return result
