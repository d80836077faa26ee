"""AFS: devices to who shortens the average completion time most, two jobs compared at a time."""

from __future__ import annotations

import numpy as np

from staves.scheduling._growing import Growing
from staves.scheduling._ladders import decided, ladders
from staves.scheduling._policy import Policy
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, View


class Afs(Policy):
    """Each next device goes to the job of top priority, of two jobs by whom it serves both.

    After Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning" (NSDI '21, section
    4, AFS-L). Of two jobs let a end sooner than b with what they have, at rates p_a and p_b that
    one more device raises to p'_a and p'_b. It goes to b where (p'_b - p_b) / p'_b is larger than
    (p'_a - p_a) / p_a, else to a: a's end is followed by b alone, so efficient jobs get more, and
    short ones first. Of jobs without devices the shorter one comes first. What the paper says of
    one type of device is done on each; see `Growing`. A job in a pause stays as it is.
    """

    name = "afs"
    job_kind = "elastic"
    round_seconds = None

    def decide(self, view: View) -> Decision:
        """Return the decision, device by device."""
        done, free = settled(view, pausing=True)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        growing = Growing(ladders(jobs, free), free)
        with np.errstate(divide="ignore", invalid="ignore"):
            while growing.open.any():
                growing.step(_top(growing))
        return decided(
            view,
            done,
            jobs,
            growing.chosen,
            lambda j: "no other job would gain more by one of these",
            lambda j: "Shorter jobs, or such as scale better, have the devices.",
        )


def _top(growing: Growing) -> int:
    """Return the number of the job whose step comes next.

    Jobs are compared in order of their length, the winner so far with the next: so the one that
    ends sooner is always the winner so far.
    """
    step = (growing.next_rate - growing.rate) / np.maximum(1, growing.next_size - growing.size)
    as_shorter = step / growing.rate
    as_longer = step / (growing.rate + step)
    length, waiting = growing.work / growing.rate, growing.work / growing.next_rate
    order = np.lexsort((np.where(growing.started, 0.0, waiting), length))
    order = order[growing.open[order]]
    winner = 0
    while len(better := np.flatnonzero(as_longer[order[winner + 1 :]] > as_shorter[order[winner]])):
        winner += 1 + int(better[0])
    return int(order[winner])
