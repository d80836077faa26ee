"""The event engine: arrivals, ends and rounds on a heap, and nothing in between."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from staves.errors import InputError, StavesError, quoted
from staves.hardware import Cluster
from staves.scheduling import JobView, Policy, View, place
from staves.simulation._active import Active
from staves.simulation._results import JobResult, Simulation

_ARRIVAL, _END, _ROUND = range(3)


def simulate(
    policy: Policy,
    cluster: Cluster,
    jobs: Sequence[JobView],
    *,
    work_known: bool = True,
    until: float = math.inf,
    most_decisions: int = 1_000_000,
) -> Simulation:
    """Return what happens to `jobs` on `cluster` under `policy`, event by event.

    Progress is fluid: a job that holds devices and is in no pause advances by its rate. Starts
    cost the job's `start_pause`, any change of its devices its `resize_pause`; a job that loses all
    devices keeps its progress. Types are in the order of their names, as in `Configuration`.
    Jobs that the policy leaves waiting for good do not finish.

    Args:
        policy: the very object that the service calls.
        cluster: the devices.
        jobs: as submitted: `submitted` says when they come, `remaining` their work in reference
            samples, `rates` the truth, which the policy believes. What they hold is not looked at.
        work_known: whether the policy is told the work that is left.
        until: simulated seconds at which to stop.
        most_decisions: bound on the decisions.

    Raises:
        InputError: two jobs have one id, work is not finite, or the policy never decides.
        StavesError: `most_decisions` were made, and jobs are still running; or a decision does not
            fit in the cluster.
    """
    run = _Run(policy, cluster, jobs, work_known)
    while run.heap and run.heap[0][0] <= until:
        due = run.happen()
        if not due or not run.active:
            continue
        if run.decisions >= most_decisions:
            raise StavesError(
                f"{most_decisions} decisions, and {len(run.active)} jobs still run",
                hint="the policy may keep some job from making progress; see `until`",
            )
        run.decide()
        if run.stuck:
            break
    if math.isfinite(until) and run.active and not run.stuck:
        run.advance(until)
    return run.simulation()


class _Run:
    def __init__(
        self, policy: Policy, cluster: Cluster, jobs: Sequence[JobView], work_known: bool
    ) -> None:
        if policy.round_seconds is None and not policy.at_events:
            raise InputError(f"the policy {policy.name} decides neither at events nor in rounds")
        self._policy, self._jobs, self._work_known = policy, jobs, work_known
        self._devices = cluster.devices()
        self._types = tuple(cluster.configuration)
        self._nodes = tuple(
            tuple(node.configuration.count(name) for name in self._types) for node in cluster.nodes
        )
        self._capacity = tuple(cluster.configuration.values())
        self.active: dict[str, Active] = {}
        self.decisions = 0
        self.stuck = False
        self._done: dict[str, JobResult] = {}
        self._now = 0.0
        self._round_at: float | None = None
        self._arrivals = len(jobs)
        self.heap: list[tuple[float, int, int, int]] = []
        self._index: dict[str, int] = {}
        for index, job in enumerate(jobs):
            if job.id in self._index:
                raise InputError(f"two jobs have the id {quoted(job.id)}")
            if not (math.isfinite(job.remaining) and job.remaining >= 0):
                raise InputError(f"{job.id}: the work {job.remaining} must be finite, and not < 0")
            self._index[job.id] = index
            heapq.heappush(self.heap, (job.submitted, _ARRIVAL, index, 0))

    def happen(self) -> bool:
        """Let all that comes next at one and the same time happen; say whether to decide."""
        self._now, due = self.heap[0][0], False
        while self.heap and self.heap[0][0] == self._now:
            _, kind, index, version = heapq.heappop(self.heap)
            if kind == _ROUND:
                self._round_at, happened = None, True
            elif kind == _ARRIVAL:
                job = self._jobs[index]
                self.active[job.id] = Active(job, work_known=self._work_known)
                self._arrivals -= 1
                happened = self._policy.at_events
            else:
                happened = self._end(index, version) and self._policy.at_events
            due = due or happened
        self._schedule_round()
        return due

    def _end(self, index: int, version: int) -> bool:
        active = self.active.get(self._jobs[index].id)
        if active is None or active.version != version:
            return False  # foreseen before the job's devices changed
        active.advance(self._now)
        active.finish()
        self._done[active.job.id] = active.result(self._now)
        del self.active[active.job.id]
        return True

    def decide(self) -> None:
        """Ask the policy, and let the jobs have what it says."""
        self.advance(self._now)
        ordered = sorted(
            self.active.values(), key=lambda a: (a.job.submitted, self._index[a.job.id])
        )
        jobs = tuple(active.view() for active in ordered)
        view = View(self._now, self._types, self._capacity, self._nodes, jobs)
        decision = self._policy.decide(view)
        self.decisions += 1
        held = {a.job.id: a.allocation for a in ordered if a.allocation is not None}
        placed = place(self._devices, decision.chosen, self._types, held)
        for active in ordered:
            before = active.version
            active.give(placed.get(active.job.id), decision.chosen.get(active.job.id))
            if active.version != before and math.isfinite(active.end()):
                entry = (active.end(), _END, self._index[active.job.id], active.version)
                heapq.heappush(self.heap, entry)
        self.stuck = not placed and not self._arrivals

    def advance(self, now: float) -> None:
        """Let time pass until `now`."""
        self._now = now
        for active in self.active.values():
            active.advance(now)

    def _schedule_round(self) -> None:
        seconds = self._policy.round_seconds
        if seconds is not None and self.active and self._round_at is None:
            self._round_at = (math.floor(self._now / seconds) + 1) * seconds
            heapq.heappush(self.heap, (self._round_at, _ROUND, 0, 0))

    def simulation(self) -> Simulation:
        """Return the results in the order of the jobs; of those that never came, too."""
        for active in self.active.values():
            self._done[active.job.id] = active.result(None)
        return Simulation(
            tuple(
                self._done.get(job.id) or JobResult(job.id, job.submitted, None, None, (), ())
                for job in self._jobs
            ),
            self.decisions,
        )
