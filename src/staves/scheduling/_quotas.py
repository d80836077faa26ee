"""Quotas: how many devices of all types the jobs of one tenant may have together."""

from __future__ import annotations

from collections.abc import Mapping

from staves.errors import InputError, quoted
from staves.hardware import MOST_DEVICES
from staves.scheduling._policy import Policy
from staves.scheduling._view import Counts, View


def check_quotas(policy: Policy, quotas: Mapping[str, int]) -> None:
    """Refuse quotas that a policy would not keep to.

    Raises:
        InputError: there are some, and the policy does not say that it honours any; or one is
            negative or larger than any cluster, or has no tenant.
    """
    if quotas and not policy.quotas:
        raise InputError(
            f"the policy {quoted(policy.name)} does not honour quotas",
            hint="heet does; `quotas = True` in a policy's class says so",
        )
    for tenant, quota in quotas.items():
        if not tenant or not 0 <= quota <= MOST_DEVICES:
            raise InputError(
                f"the quota {quoted(quota)} of the tenant {quoted(tenant)} is none",
                hint=f"a tenant has a name, and 0 to {MOST_DEVICES} devices",
            )


def used(view: View, chosen: Mapping[str, Counts]) -> dict[str, int]:
    """Return by tenant with a quota how many devices its jobs have, of what is chosen for them."""
    total = dict.fromkeys(view.quotas, 0)
    if total:
        for job in view.jobs:
            if job.tenant in total and job.id in chosen:
                total[job.tenant] += sum(chosen[job.id])
    return total


def room(view: View, chosen: Mapping[str, Counts]) -> dict[str, int]:
    """Return by tenant with a quota how many devices more its jobs could have; 0 where over it."""
    return {
        tenant: max(view.quotas[tenant] - count, 0) for tenant, count in used(view, chosen).items()
    }


def allowances(view: View) -> dict[str, int]:
    """Return by tenant with a quota what its jobs may have together: the quota, or what they keep.

    Jobs that are pinned, or that are guaranteed devices, may keep what they have though a quota has
    since been lowered below it; one of them that has lost devices, what it cannot run without.
    """
    kept = dict.fromkeys(view.quotas, 0)
    for job in view.jobs if kept else ():
        if job.tenant not in kept or job.current is None:
            continue
        if job.pinned:
            kept[job.tenant] += sum(job.current)
        elif job.guaranteed:
            kept[job.tenant] += max(sum(job.current), job.minimum)
    return {tenant: max(quota, kept[tenant]) for tenant, quota in view.quotas.items()}
