"""Optimus: devices to who would save most time by them."""

from __future__ import annotations

import numpy as np

from staves.scheduling._growing import Growing
from staves.scheduling._ladders import decided, ladders
from staves.scheduling._policy import Policy
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, View


class Optimus(Policy):
    """Everybody gets one device, as they came; others go where they save most remaining time.

    After Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters"
    (EuroSys '18, section 4.1). A job's marginal gain is the remaining time that one more device
    takes off it, per device; the largest gets it, until nothing is free or nobody gains. Its
    parameter servers have no place here, where workers reduce among themselves: a worker is a
    device. The paper decides each ten minutes, Pollux's authors, who compared with it, each minute,
    as here. A job in a pause stays as it is.
    """

    name = "optimus"
    job_kind = "elastic"
    round_seconds = 60.0
    at_events = False

    def decide(self, view: View) -> Decision:
        """Return the decision, device by device."""
        done, free = settled(view, pausing=True)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        growing = Growing(ladders(jobs, free), free)
        for j in range(len(jobs)):
            growing.start(j)
        while (growing.open & growing.started).any():
            growing.step(_most_saved(growing))
        return decided(
            view,
            done,
            jobs,
            growing.chosen,
            lambda j: "no other job would save more time by one of these",
            lambda j: "Jobs that came before it have all devices, one each at least.",
        )


def _most_saved(growing: Growing) -> int:
    """Return the number of the job whose next step saves most seconds a device."""
    grows = growing.open & growing.started
    rate, size = growing.rate[grows], growing.size[grows]
    saved = growing.work[grows] * (1 / rate - 1 / growing.next_rate[grows])
    return int(np.flatnonzero(grows)[(saved / (growing.next_size[grows] - size)).argmax()])
