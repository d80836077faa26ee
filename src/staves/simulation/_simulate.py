"""The event engine: arrivals, ends of phases, failures and rounds on a heap; nothing in between."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from staves.errors import InputError, StavesError, quoted
from staves.hardware import Allocation, Cluster
from staves.scheduling import JobView, Policy, View, check_quotas, decision_of, place
from staves.simulation._active import Active
from staves.simulation._conditions import Conditions
from staves.simulation._results import JobResult, Simulation, Timing
from staves.simulation._work import FluidWork, Submission, placement_of

_PATIENCE = 1000
"""Decisions in a row that give nobody anything, with nothing to come, after which a run ends."""

_ARRIVAL, _MARK, _REPAIR, _FAILURE, _ROUND = range(5)


def simulate(
    policy: Policy,
    cluster: Cluster,
    jobs: Sequence[JobView],
    *,
    work_known: bool = True,
    until: float = math.inf,
    most_decisions: int = 1_000_000,
) -> Simulation:
    """Return what happens to `jobs` whose rates are constant, and known: see `replay`.

    Args:
        policy: the very object that the service calls.
        cluster: the devices.
        jobs: as submitted: `submitted` says when they come, `remaining` their work in reference
            samples, `rates` the truth, which the policy believes. What they hold is not looked at.
        work_known, until, most_decisions: as in `replay`.

    Raises:
        InputError, StavesError: as `replay`.
    """
    submissions = [Submission(job, FluidWork(job.rates, job.remaining)) for job in jobs]
    return replay(
        policy,
        cluster,
        submissions,
        work_known=work_known,
        until=until,
        most_decisions=most_decisions,
    )


def replay(
    policy: Policy,
    cluster: Cluster,
    jobs: Sequence[Submission],
    *,
    conditions: Conditions | None = None,
    quotas: Mapping[str, int] | None = None,
    work_known: bool = True,
    until: float = math.inf,
    most_decisions: int = 1_000_000,
    progress: Callable[[int, float], None] | None = None,
) -> Simulation:
    """Return what happens to `jobs` on `cluster` under `policy`, event by event.

    Progress is fluid: a job that holds devices and is in no pause advances by its rate, which is
    constant within a phase. Starts cost the job's `start_pause`, any change of its devices its
    `resize_pause`, after which its new devices are at work: `resize_delay` is told to the policy
    and takes no time here. A job that loses all devices keeps its progress, but for failures
    (`Conditions`). Types are in the order of their names, as in `Configuration`. Jobs that the
    policy leaves waiting for good, or whose nodes stay away for good, do not finish.

    Args:
        policy: the very object that the service calls.
        cluster: the devices.
        jobs: with the truth of each.
        conditions: failures and stragglers; None for none.
        quotas: devices that jobs of a tenant may have together, by tenant; None for none.
        work_known: whether the policy is told the work that is left.
        until: simulated seconds at which to stop.
        most_decisions: bound on the decisions.
        progress: called after each decision with the number of jobs that have ended, and the time.

    Raises:
        InputError: two jobs have one id, work is not finite, or the policy never decides, or does
            not honour quotas.
        StavesError: `most_decisions` were made, and jobs are still running; or a decision names a
            job that is not active, or does not fit in the cluster.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    run = _Run(policy, cluster, jobs, conditions or Conditions(), quotas or {}, work_known)
    while run.goes_on() and run.heap[0][0] <= until:
        due = run.happen()
        if not due or not run.active:
            continue
        if run.decisions >= most_decisions:
            raise StavesError(
                f"{most_decisions} decisions, and {len(run.active)} jobs still run",
                hint="the policy may keep some job from making progress; see `until`",
            )
        run.decide()
        if progress is not None:
            progress(run.ended, run.now)
        if run.stuck:
            break
    if math.isfinite(until) and run.active and not run.stuck:
        run.advance(until)
    return run.simulation(time.perf_counter() - wall, time.process_time() - cpu)


class _Run:
    def __init__(
        self,
        policy: Policy,
        cluster: Cluster,
        jobs: Sequence[Submission],
        conditions: Conditions,
        quotas: Mapping[str, int],
        work_known: bool,
    ) -> None:
        check_quotas(policy, quotas)
        if policy.round_seconds is None and not policy.at_events:
            raise InputError(f"the policy {policy.name} decides neither at events nor in rounds")
        self._policy, self._jobs, self._work_known = policy, jobs, work_known
        self._conditions, self._quotas = conditions, quotas
        self._cluster = cluster
        self._types = tuple(cluster.configuration)
        self._down: set[str] = set()
        self._returns: Counter[str] = Counter()  # of each node, on the heap
        self._slowdowns = conditions.slowdowns([node.name for node in cluster.nodes])
        self._draws = conditions.draws()
        self._take_stock()
        self.active: dict[str, Active] = {}
        self.decisions = 0
        self.stuck = False
        self._idle = 0
        self.now = 0.0
        self._done: dict[str, JobResult] = {}
        self._seconds: list[float] = []
        self._gaps: list[float] = []
        self._round_at: float | None = None
        self._arrivals = len(jobs)
        self.heap: list[tuple[float, int, int, int]] = []
        self._index: dict[str, int] = {}
        for index, job in enumerate(jobs):
            if job.view.id in self._index:
                raise InputError(f"two jobs have the id {quoted(job.view.id)}")
            total = job.work.marks[-1]
            if not (math.isfinite(total) and total >= 0):
                raise InputError(f"{job.view.id}: the work {total} must be finite, and not < 0")
            self._index[job.view.id] = index
            heapq.heappush(self.heap, (job.view.submitted, _ARRIVAL, index, 0))
        if math.isfinite(conditions.failure_seconds) and self.heap:
            start = self.heap[0][0]
            for index in range(len(cluster.nodes)):
                at = start + self._draws.exponential(conditions.failure_seconds)
                heapq.heappush(self.heap, (at, _FAILURE, index, 0))
        if conditions.availability is not None:
            for outage in conditions.availability.outages(cluster):
                if outage.up:
                    self._return(outage.at, outage.node)
                else:
                    heapq.heappush(self.heap, (outage.at, _FAILURE, outage.node, 0))

    @property
    def ended(self) -> int:
        """How many jobs have ended."""
        return len(self._done)

    def goes_on(self) -> bool:
        """Say whether something can still happen to a job."""
        return bool(self.heap) and bool(self.active or self._arrivals)

    def _take_stock(self) -> None:
        """Note what may be used: the devices of the nodes that are up."""
        up = [node for node in self._cluster.nodes if node.name not in self._down]
        self._devices = tuple(d for d in self._cluster.devices() if d.node not in self._down)
        self._nodes = tuple(
            tuple(node.configuration.count(name) for name in self._types) for node in up
        )
        self._capacity = tuple(
            sum(node[g] for node in self._nodes) for g in range(len(self._types))
        )

    def happen(self) -> bool:
        """Let all that comes next at one and the same time happen; say whether to decide."""
        self.now, due = self.heap[0][0], False
        while self.heap and self.heap[0][0] == self.now:
            _, kind, index, version = heapq.heappop(self.heap)
            if kind == _ROUND:
                self._round_at = None
                due = True
            elif kind == _MARK:
                due |= self._pass_mark(index, version) and self._policy.at_events
            else:
                if kind == _ARRIVAL:
                    self._arrive(index)
                elif kind == _FAILURE:
                    self._fail(index)
                else:
                    self._repair(index)
                due |= self._policy.at_events
        self._schedule_round()
        return due

    def _arrive(self, index: int) -> None:
        job = self._jobs[index]
        self.active[job.view.id] = Active(
            job,
            work_known=self._work_known,
            checkpoint_seconds=self._conditions.checkpoint_seconds
            if self._conditions.nodes_fail
            else math.inf,
        )
        self._arrivals -= 1

    def _pass_mark(self, index: int, version: int) -> bool:
        """Say whether the job has ended."""
        active = self.active.get(self._jobs[index].view.id)
        if active is None or active.version != version:
            return False  # foreseen before the job's devices changed
        active.advance(self.now)
        if not active.pass_mark():
            self._foresee(active)
            return False
        self._done[active.job.id] = active.result(self.now)
        del self.active[active.job.id]
        ended = self._jobs[index].ended
        if ended is not None:
            ended()
        return True

    def _foresee(self, active: Active) -> None:
        at = active.next_mark()
        if math.isfinite(at):
            index = self._index[active.job.id]
            heapq.heappush(self.heap, (at, _MARK, index, active.version))

    def _fail(self, index: int) -> None:
        """Take a node away, and from the jobs on it what they had there."""
        name = self._cluster.nodes[index].name
        self._down.add(name)
        self._take_stock()
        if self._conditions.availability is None:
            self._return(self.now + self._draws.exponential(self._conditions.repair_seconds), index)
        for active in self.active.values():
            if active.allocation is None or name not in active.allocation.nodes:
                continue
            active.advance(self.now)
            left = tuple(d for d in active.allocation.devices if d.node != name)
            stays = self._conditions.in_place and active.job.elastic
            stays = stays and len(left) >= max(1, active.job.minimum)
            active.fail(keeps_state=stays)
            self._give(active, Allocation(left) if stays else None)

    def _return(self, at: float, index: int) -> None:
        """Foresee that a node comes back."""
        heapq.heappush(self.heap, (at, _REPAIR, index, 0))
        self._returns[self._cluster.nodes[index].name] += 1

    def _repair(self, index: int) -> None:
        name = self._cluster.nodes[index].name
        self._returns[name] -= 1
        self._down.discard(name)
        self._take_stock()
        if self._conditions.availability is None:
            at = self.now + self._draws.exponential(self._conditions.failure_seconds)
            heapq.heappush(self.heap, (at, _FAILURE, index, 0))

    def decide(self) -> None:
        """Ask the policy, and let the jobs have what it says."""
        self.advance(self.now)
        ordered = list(self.active.values())  # as they came: so they are in order of submission
        jobs = tuple(active.view(len(self._types)) for active in ordered)
        view = View(self.now, self._types, self._capacity, self._nodes, jobs, self._quotas)
        before = time.process_time()
        try:
            decision = decision_of(self._policy, view)
        except StavesError as error:
            when = f"after {self.now:,.0f} simulated seconds"
            raise StavesError(f"{when}, {error.message}", hint=error.hint) from error
        self._seconds.append(time.process_time() - before)
        self.decisions += 1
        if decision.value is not None and decision.bound:
            self._gaps.append(max(0.0, 1 - decision.value / decision.bound))
        chosen = decision.chosen
        # What is aligned may move though no counts have changed.
        aligned = self._policy.placing == "aligned"
        if aligned or any(chosen.get(a.job.id) != a.counts for a in ordered):
            held = {a.job.id: a.allocation for a in ordered if a.allocation is not None}
            pinned = {job.id for job in jobs if job.current is not None and job.pinned}
            placed = place(
                self._devices,
                chosen,
                self._types,
                held,
                placing=self._policy.placing,
                fixed=pinned,
            )
            for active in ordered:
                self._give(active, placed.get(active.job.id))
        for active in ordered:
            if active.choose_again():
                self._foresee(active)
        self._lose_patience(bool(decision.chosen))

    def _lose_patience(self, busy: bool) -> None:
        """Count the decisions that give nobody anything although all that ever comes is there."""
        if busy or self._arrivals:
            self._idle = 0
        elif not any(self._returns[name] for name in self._down):
            self._idle += 1
        # Else the count stays: where nodes fail all the time, few decisions see all of them.
        self.stuck = self._idle >= _PATIENCE

    def _give(self, active: Active, allocation: Allocation | None) -> None:
        if allocation == active.allocation:
            return
        if allocation is None:
            active.give(None, None, None)
            return
        placement = placement_of(allocation, self._types)
        slowdown = max((self._slowdowns.get(node, 1.0) for node in allocation.nodes), default=1.0)
        counts = tuple(sum(nodes) for nodes in placement)
        active.give(
            allocation,
            counts,
            placement,
            slowdown=slowdown,
            free_moves=self._conditions.free_moves,
        )
        self._foresee(active)

    def advance(self, now: float) -> None:
        """Let time pass until `now`."""
        self.now = now
        for active in self.active.values():
            active.advance(now)

    def _schedule_round(self) -> None:
        seconds = self._policy.round_seconds
        if seconds is not None and self.active and self._round_at is None:
            self._round_at = (math.floor(self.now / seconds) + 1) * seconds
            heapq.heappush(self.heap, (self._round_at, _ROUND, 0, 0))

    def simulation(self, wall: float, cpu: float) -> Simulation:
        """Return the results in the order of the jobs; of those that never came, too."""
        for active in self.active.values():
            self._done[active.job.id] = active.result(None)
        return Simulation(
            tuple(
                self._done.get(job.view.id)
                or JobResult(job.view.id, job.view.submitted, None, None, (), ())
                for job in self._jobs
            ),
            self.decisions,
            tuple(self._gaps),
            Timing(tuple(self._seconds), wall, cpu),
        )
