"""Heet's published rule as it can be recovered: price, full matching, trades of one device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._growing import known_work
from staves.scheduling._ladders import Array, Ladders, decided, ladders
from staves.scheduling._matching import matched
from staves.scheduling._policy import Policy
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, View


class HeetPaper(Policy):
    """Jobs to equal slots by a price, as a minimum-weight full matching; then trades.

    After Mo, Xu, Xu, "Heet: Accelerating Elastic Training in Heterogeneous Deep Learning Clusters"
    (ASPLOS '24), by its abstract and public notes; its text is not public, and the formulas are
    inferred. Beside `heet`, which is this project's own.

    All devices are cut into slots of s of one type, s by the load: the smallest power of two with
    which as many slots as jobs would need all devices. A job's price for a slot of type g is its
    remaining time there over its scaling efficiency, (R / X(g, s)) / (s e), e = X(g, s) / (s X(g,
    1)), written without s as R X(g, 1) / X(g, s)^2: short jobs, and such as scale well, are cheap.
    After the matching, one device at a time goes from the running job that loses least,
    2 (X(n) - X(n - 1)) / X(n), to the waiting one that gains most, X(1) / X(s), as long as the
    seller's is not the larger; both on one type. A job that must have more than s devices, or may
    only have fewer, has these. Rounds of 120 s; every change is a restart.
    """

    name = "heet-paper"
    job_kind = "adaptive"
    estimator = "product"
    round_seconds = 120.0
    at_events = False

    def decide(self, view: View) -> Decision:
        """Return the matching, and what trades make of it."""
        done, free = settled(view)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        all_steps = ladders(jobs, free)
        able = np.flatnonzero(all_steps.best > 0)
        size = slot_size(len(able), free)
        slots = [n // size for n in free]
        wanted = _sizes(all_steps.some(able.tolist()), size)
        cost = prices(all_steps.some(able.tolist()), wanted)
        kind = matched(cost, slots)
        chosen: dict[int, tuple[int, int]] = {}
        left = list(free)
        # The cheapest first: a job that must have more than a slot may find too few left.
        paid = np.where(kind >= 0, cost[np.arange(len(able)), kind], np.inf)
        for i in np.argsort(paid, kind="stable").tolist():
            g = int(kind[i])
            if g >= 0 and wanted[i, g] <= left[g]:
                chosen[int(able[i])] = g, int(wanted[i, g])
                left[g] -= int(wanted[i, g])
        matching = dict(chosen)
        for g in range(len(free)):
            _trade(all_steps, able.tolist(), g, size, chosen)
        return decided(
            view,
            done,
            jobs,
            chosen,
            lambda j: (
                f"a slot of {size}, by its price"
                if matching.get(j) == chosen[j]
                else "a trade of one device"
            ),
            lambda j: "Others have all slots at a lower price, and none of them sells a device.",
        )


def slot_size(jobs: int, free: list[int]) -> int:
    """Return the smallest power of two that times `jobs` is all devices, or fits in no type more.

    Args:
        jobs: how many want devices.
        free: devices of each type.
    """
    size = 1
    while jobs * size < sum(free) and 2 * size <= max(free):
        size *= 2
    return size


def _sizes(steps: Ladders, size: int) -> NDArray[np.int64]:
    """Return what each job would have of a slot of each type, (J, G): the nearest that runs it."""
    rates = steps.rates
    counts = np.arange(rates.shape[2])
    runs = rates > 0
    within = np.where(runs & (counts <= size), counts, 0).max(axis=2)
    least = np.where(runs.any(axis=2), runs.argmax(axis=2), 0)
    nearest: NDArray[np.int64] = np.where(within > 0, within, least)
    return nearest


def prices(steps: Ladders, sizes: NDArray[np.int64]) -> Array:
    """Return each job's price for a slot of each type, (J, G); inf where it cannot run.

    Args:
        steps: of J jobs.
        sizes: devices that each would have there, (J, G); 0 for none.
    """
    rate = np.take_along_axis(steps.rates, sizes[:, :, None], axis=2)[:, :, 0]
    one = steps.rates[:, :, 1]
    # What does not run on one device is taken to scale without loss.
    one = np.where(one > 0, one, rate / np.maximum(1, sizes))
    left = np.array([known_work(job) for job in steps.jobs])
    with np.errstate(divide="ignore", invalid="ignore"):
        price: Array = np.where(rate > 0, left[:, None] * one / rate**2, np.inf)
    return price


def _trade(
    steps: Ladders, able: list[int], g: int, size: int, chosen: dict[int, tuple[int, int]]
) -> None:
    """Let devices of type g go from who has them to who waits, while both agree."""
    rates = steps.rates[:, g]
    while True:
        sellers = [
            (2 * (rates[j, n] - rates[j, n - 1]) / rates[j, n], j)
            for j, (h, n) in chosen.items()
            if h == g and n > 1 and rates[j, n - 1] > 0
        ]
        buyers = [
            (rates[j, 1] / rates[j, min(size, rates.shape[1] - 1)], -j)
            for j in able
            if j not in chosen and rates[j, 1] > 0 and rates[j, min(size, rates.shape[1] - 1)] > 0
        ]
        if not sellers or not buyers:
            return
        asked, seller = min(sellers)
        offered, buyer = max(buyers)
        if asked > offered:
            return
        chosen[seller] = g, chosen[seller][1] - 1
        chosen[-buyer] = g, 1
