"""A policy of one's own: devices one at a time, always to the job that has fewest."""

from __future__ import annotations

import numpy as np

from staves.scheduling import Decision, Growing, Policy, View, decided, ladders, settled


class Even(Policy):
    """Everybody has as many devices as the others, as far as that makes them faster."""

    name = "even"
    job_kind = "elastic"
    round_seconds = 300.0

    def decide(self, view: View) -> Decision:
        """Return the decision: the same view always gives the same one."""
        # What this policy must leave alone, and the devices of each type that it may give out.
        done, free = settled(view)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        growing = Growing(ladders(jobs, free), free)
        while growing.open.any():
            able = np.flatnonzero(growing.open)  # jobs that a next device would make faster
            growing.step(int(able[growing.size[able].argmin()]))  # of equals, who came first
        return decided(
            view,
            done,
            jobs,
            growing.chosen,
            why=lambda j: f"nobody who could use another has fewer than {growing.size[j]}",
            waits=lambda j: "All devices that it could use are taken, one by one.",
        )
