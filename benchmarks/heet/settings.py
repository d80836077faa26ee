"""What is run: policies, and what they run under; all beside each other on the same files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from staves.hardware import Cluster
from staves.scheduling import Decision, JobKind, Policy, View, policies
from staves.scheduling.heet import Heet
from staves.simulation import IN_PLACE_SECONDS, AnyApplication, Conditions, Experiment, Workload

Made = tuple[Cluster, Workload, Mapping[str, AnyApplication]]
"""A cluster, the jobs that come to it, and what they are."""


class OneType(Heet):
    """Heet where no job may have devices of several types."""

    def decide(self, view: View) -> Decision:
        """Return the best decision without mixed types."""
        jobs = tuple(replace(job, mix=False) for job in view.jobs)
        return super().decide(replace(view, jobs=jobs))


def in_rounds(policy: Heet) -> Heet:
    """Let a policy decide every 60 s only, as Sia does."""
    policy.at_events = False
    return policy


@dataclass(frozen=True)
class Setting:
    """One row of a table.

    Args:
        name: in tables, and of what is kept: no two settings share one.
        policy: its name.
        variant: what decides, where that is not the policy as it is made.
        in_place: whether systems that can change jobs in place do, in 5 s; else every change is a
            restart, at the published pauses.
        learned: whether policies are told what their own system's estimator has learned; else the
            truth.
        kind: of jobs, whatever those of the table are.
        belief_error: of the speeds that policies are told; 0.2 is about 20 %.
        failure_hours: mean time of a node to its next failure.
        seeds: of what is drawn; a run for each.
    """

    name: str
    policy: str = "heet"
    variant: Policy | None = None
    in_place: bool = True
    learned: bool = False
    kind: JobKind | None = None
    belief_error: float = 0.0
    failure_hours: float = math.inf
    seeds: int = 1

    def experiments(self, made: Made, kind: JobKind) -> Iterator[Experiment]:
        """Yield the runs of one workload: on its cluster, with its jobs and their applications."""
        system = policies()[self.policy] if self.variant is None else type(self.variant)
        for seed in range(self.seeds):
            yield Experiment(
                self.policy,
                *made,
                self.kind or kind,
                "learned" if self.learned else "oracle",
                IN_PLACE_SECONDS if self.in_place else None,
                Conditions(
                    seed,
                    failure_seconds=self.failure_hours * 3600.0,
                    # A system that restarts jobs at every change does so at a failure, too.
                    in_place=self.in_place and system.in_place,
                    free_moves=True,
                ),
                belief_error=self.belief_error,
                variant=self.variant,
            )
