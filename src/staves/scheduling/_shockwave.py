"""Shockwave: a market of rounds that looks ahead, and does not leave long jobs to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import Table, as_table
from staves.scheduling._growing import known_work
from staves.scheduling._ladders import Array, Ladders, decided, ladders
from staves.scheduling._policy import Policy
from staves.scheduling._programme import matrix, minimise
from staves.scheduling._settled import requested, settled
from staves.scheduling._view import Decision, JobView, View

ROUNDS, POWER, REGULARISER = 20, 5.0, 0.05
"""Rounds of the window, the power of rho in a job's budget, and the weight of the longest rest.

The last was picked on the first Philly workload, as the bounds below were."""

_PIECES = 8
_LEAST = 0.05  # the share of its work that a job counts as having done, at least
_MOST_RHO = 2.0  # beyond, few old jobs would have all the budget, and everybody grow old
_STAYS = 1e-5  # of the mean of logarithms, for a window where a job is
_DIGITS = 6  # of a share of the window, below which it is the solver's noise


class Shockwave(Policy):
    """The plan of a window of rounds with the largest Nash social welfare, less the longest rest.

    After Zheng et al., "Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in
    Machine Learning" (NSDI '23, sections 4 to 6). Rigid jobs buy rounds, and the plan is that of
    the largest mean of log(share of its work that a job has done when the window ends), weighted by
    rho^5: the equilibrium of a Fisher market whose budgets grow with the unfairness rho of a job's
    finish time, as it would be with a fair share from now on. What the longest job then has left,
    over what the longest has left now, is subtracted, so that the makespan counts.

    The paper's programme names whole rounds one by one, and predicts how batch sizes will change.
    Here a plan says what part of the window a job has on each type, which a linear programme finds,
    at present speeds. Who needs the whole window runs first, then who runs already, where it runs
    if the plan has a round of it there; what does not fit is passed over, and each round plans
    anew. What is in a pause stays as it is, and a pause
    takes its part of the window. How the rest of the longest job is scaled is our own, and so are
    the bounds of rho, 1 and 2, and that a job counts as having done a twentieth at least. These and
    the regulariser were picked on the first Philly workload. Its paper's order, before Gavel in
    average completion time, is reproduced on some workloads only: see docs/field.md.

    Args:
        rounds: of the window.
        power: of rho in a job's budget; 0: all budgets are equal.
        regulariser: weight of the longest rest, beside the mean of logarithms.
    """

    name = "shockwave"
    job_kind = "rigid"
    round_seconds = 120.0
    at_events = False

    def __init__(
        self, rounds: int = ROUNDS, power: float = POWER, regulariser: float = REGULARISER
    ) -> None:
        self._rounds, self._power, self._regulariser = rounds, power, regulariser

    def decide(self, view: View) -> Decision:
        """Return who runs in the first round of the best plan."""
        done, free = settled(view, pausing=True)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        every = ladders(jobs, free, rigid=True)
        able = np.flatnonzero(every.best > 0)
        steps = every.some(able.tolist())
        rho = unfairness(view, steps, every.fair(view)[able])
        need = np.array([requested(job) for job in steps.jobs], dtype=np.int64)
        nothing = (0,) * len(free)
        held = as_table([job.current or nothing for job in steps.jobs], len(free))
        rates = steps.rates.max(axis=2)
        window = self._rounds * (self.round_seconds or 0.0)
        market = Market(
            rates=rates * _trains(steps.jobs, held, window),
            need=need.astype(np.float64),
            capacity=np.array(free, dtype=np.float64),
            work=np.array([known_work(job) for job in steps.jobs], dtype=np.float64),
            done=np.array([job.progress for job in steps.jobs], dtype=np.float64),
            budget=np.minimum(rho, _MOST_RHO) ** self._power,
            held=held,
        )
        plan = market.plan(window, self._regulariser)
        chosen = {
            int(able[i]): (g, int(need[i]))
            for i, g in _first(rates > 0, plan, held, 1 - 1 / self._rounds, rho, need, free).items()
        }
        place = {int(j): i for i, j in enumerate(able)}

        def planned(j: int) -> str:
            part = plan[place[j]].sum()
            return f"{part:.0%} of the next {window / 60:.0f} minutes by the plan"

        return decided(
            view,
            done,
            jobs,
            chosen,
            lambda j: f"it runs {planned(j)}; its rho is {rho[place[j]]:.2g}",
            lambda j: (
                f"It runs {planned(j)}, and others first."
                if j in place
                else "No type has as many devices as it asks for that run it."
            ),
        )


def unfairness(view: View, steps: Ladders, fair: Array) -> Array:
    """Return rho of each job with a fair share from now on, (J,): its time over that alone.

    Args:
        view: the present.
        steps: of J jobs.
        fair: their rates on a fair share, (J,).
    """
    elapsed = np.array([view.now - job.submitted for job in steps.jobs], dtype=np.float64)
    left = np.array([known_work(job) for job in steps.jobs], dtype=np.float64)
    done = np.array([job.progress for job in steps.jobs], dtype=np.float64)
    rho: Array = (elapsed + left / fair) / np.maximum((done + left) / fair, 1.0)
    return np.maximum(rho, 1.0)


def _trains(jobs: Sequence[JobView], held: Table, window: float) -> Array:
    """Return the share of a window on each type that a pause for it leaves, (J, G)."""
    pause = [job.start_pause if job.current is None else job.resize_pause for job in jobs]
    left = 1 - np.where(held > 0, 0.0, np.array(pause)[:, None] / window)
    # Or jobs with long pauses could never start.
    trains: Array = np.maximum(left, _LEAST)
    return trains


def _first(
    runs: NDArray[np.bool_],
    plan: Array,
    held: Table,
    whole: float,
    rho: Array,
    need: NDArray[np.int64],
    free: list[int],
) -> dict[int, int]:
    """Return the types of the jobs that run now.

    First who needs the whole window, then who runs already, which saves restarts, then who needs
    most of it, the worst rho of equals: each on what it has where the plan has a round of it there,
    or else where it has most of the plan. Then others on what the plan leaves idle. Two jobs alike
    that are to share the faster type by halves would else change places in every round, and where a
    pause is as long as a round, do nothing else.

    Args:
        runs: whether each job runs on each type, (J, G).
        plan: parts of the window, (J, G).
        held: devices of each type that each job has, (J, G).
        whole: the part from which on no round is to be lost.
        rho: (J,).
        need: devices of each job, (J,).
        free: devices of each type.
    """
    left, chosen = list(free), dict[int, int]()
    part, has = plan.sum(axis=1), held > 0
    order = np.lexsort((-rho, -part, ~has.any(axis=1), part < whole)).tolist()
    wanted = need.tolist()
    # By type: whether a job stays on it, and if not, how much of the plan it has there.
    rank = np.where(has & (plan >= 1 - whole), 1.0 + plan, plan).tolist()
    for allowed in ((plan > 0).tolist(), runs.tolist()):
        for i in order:
            if i in chosen:
                continue
            fits = [g for g, room in enumerate(left) if wanted[i] <= room and allowed[i][g]]
            if fits:
                g = max(fits, key=rank[i].__getitem__)
                chosen[i] = g
                left[g] -= wanted[i]
                if not any(left):
                    return chosen
    return chosen


@dataclass(frozen=True, eq=False)
class Market:
    """Who buys, and what there is.

    Args:
        rates: reference samples a second of each job, with all that it asks for, on each type, (J,
            G); 0 where it cannot run, above 0 somewhere.
        need: devices of each job, (J,).
        capacity: devices of each type, (G,).
        work, done: reference samples that are left of each job, and that it has done, (J,).
        budget: of each job, (J,), above 0.
        held: devices of each type that each job has, (J, G); None: nobody has any.
    """

    rates: Array
    need: Array
    capacity: Array
    work: Array
    done: Array
    budget: Array
    held: NDArray[np.int64] | None = None

    def plan(self, window: float, regulariser: float) -> Array:
        """Return the part of the window that each job has on each type, (J, G).

        The logarithm of a job's share of work is cut into straight pieces, equal factors long.

        Args:
            window: seconds.
            regulariser: weight of the longest rest over the longest rest now.

        Raises:
            StavesError: the programme was not solved.
        """
        if not self.rates.size:
            return np.zeros(self.rates.shape)
        jobs, types = self.rates.shape
        gain = self.rates * window / (self.done + self.work)[:, None]  # shares of its work
        ends, slope = _pieces(self.done / (self.done + self.work), gain.max(axis=1))
        best = self.rates.max(axis=1)
        rest = self.work / best  # seconds
        shorter = self.rates * window / best[:, None] / rest.max()
        # Columns: parts of the window by job and type, pieces by job, the longest rest. Rows: the
        # window of each job, its pieces, the devices of each type, the longest rest by job.
        runs = job, kind = np.nonzero(self.rates > 0)
        each, one = np.arange(jobs), np.ones(len(job))
        longest = 2 * jobs + types
        bought = (
            np.column_stack([job, jobs + job, 2 * jobs + kind, longest + job]),
            np.column_stack([one, gain[runs], self.need[job], shorter[runs]]),
        )
        pieces = jobs + np.repeat(each, _PIECES)[:, None], -np.ones((jobs * _PIECES, 1))
        last = (longest + each)[None], np.ones((1, jobs))
        none, endless = np.zeros(jobs), np.full(jobs, np.inf)
        weight = self.budget / self.budget.sum()
        # Who will be done in the window anyway may be so on any type: of equal plans, who stays.
        stays = np.zeros(len(job)) if self.held is None else _STAYS * (self.held[runs] > 0)
        most = np.concatenate([one, np.diff(ends, axis=1).ravel(), [np.inf]])
        found = minimise(
            -np.concatenate([stays, (weight[:, None] * slope).ravel(), [-regulariser]]),
            matrix([bought, pieces, last]),
            (np.zeros(len(most)), most),
            (
                np.concatenate([-endless, none, np.full(types, -np.inf), rest / rest.max()]),
                np.concatenate([np.ones(jobs), endless, self.capacity, endless]),
            ),
        )
        assert found is not None, "nothing for anybody is always possible"
        plan = np.zeros(self.rates.shape)
        plan[runs] = found.x[: len(job)].round(_DIGITS)
        return plan


def _pieces(done: Array, most: Array) -> tuple[Array, Array]:
    """Return the ends of each job's pieces, (J, K + 1), and the slopes of the logarithm, (J, K).

    Args:
        done: shares of their work that jobs have done, (J,).
        most: that each could do in the window, (J,).
    """
    low = np.maximum(done, _LEAST)
    high = np.maximum(np.minimum(low + most, 1.0 + _LEAST), low * (1 + _LEAST))
    ends = low[:, None] * (high / low)[:, None] ** np.linspace(0, 1, _PIECES + 1)
    slope: Array = np.diff(np.log(ends), axis=1) / np.diff(ends, axis=1)
    return ends, slope
