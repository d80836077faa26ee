"""A part of a workload: traces last for months, simulations need not."""

from __future__ import annotations

import math
from dataclasses import replace

from staves.errors import InputError, quoted
from staves.simulation._workload import Workload


def part(
    workload: Workload, since: float = 0.0, seconds: float = math.inf, tenant: str | None = None
) -> Workload:
    """Return the jobs that come from `since` on, within `seconds`; their time counts from `since`.

    Args:
        workload: all jobs.
        since: seconds since the workload's start.
        seconds: how long.
        tenant: whose jobs; None for everybody's.

    Raises:
        InputError: a time is negative or no number, or no job is left.
    """
    if not (0 <= since < math.inf and seconds > 0):
        raise InputError(
            f"a part from {since:g} s on, of {seconds:g} s", hint="give times above zero"
        )
    chosen = tuple(
        replace(request, time=request.time - since, deadline=request.deadline - since)
        for request in workload.requests
        if since <= request.time < since + seconds and tenant in (None, request.tenant)
    )
    if not chosen:
        tenants = sorted({request.tenant for request in workload.requests} - {""})
        whose = "" if tenant is None else f" of {quoted(tenant)}"
        raise InputError(
            f"{workload.name}: no job{whose} comes in that time",
            hint=f"tenants: {', '.join(tenants)}" if tenants else "it names no tenants",
        )
    return replace(workload, requests=chosen)
