"""The virtual clock: a system decides, the truth says how long that takes, the system measures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from staves.errors import InputError, TrainingError
from staves.training._arguments import instance, integers, seed_of
from staves.training._virtual_system import Decision, Situation, System, VirtualJob
from staves.training._virtual_truth import VirtualTruth, take_step


class VirtualClock:
    """One job's time, step by step: `decide` and then `advance`, in turn.

    What is trained in the steps is not its concern: steps of a known loss can be timed anew for
    another system or another truth.

    Args:
        truth: how long everything takes.
        system: what decides; it is begun here.
        job: what it knows.
        seed: of the jitter.

    Raises:
        InputError: one of them is something else.

    Attributes:
        seconds: so far.
        step: the number of the next step.
    """

    def __init__(
        self, truth: VirtualTruth, system: System, job: VirtualJob, *, seed: int = 0
    ) -> None:
        self.truth = checked_truth("VirtualClock", truth)
        self.system = checked_system("VirtualClock", system)
        instance("VirtualClock(job)", job, VirtualJob, "VirtualJob.on(devices, batch, None)")
        seed_of("VirtualClock(seed)", seed)
        self.seconds, self.step = 0.0, 0
        self._job = job
        self._noise = truth.noise(np.random.default_rng(seed))
        self._decision: Decision | None = None
        self._changes = 0
        system.begin(job)

    def decide(self, noise_scale: float | None = None) -> tuple[Decision, float]:
        """Return how the next step is split, and the pause for that, in seconds.

        Raises:
            TrainingError: the system decides what the devices cannot hold, or what is not allowed.
        """
        before = self._decision
        decision = self.system.decide(Situation(self.step, self.seconds, noise_scale))
        if before is not None and decision == before:
            return before, 0.0
        self._decision = decision = self._job.check(decision)
        if before is None:
            return decision, 0.0
        self._changes += 1
        self.seconds += self.truth.pause_seconds
        return decision, self.truth.pause_seconds

    def advance(self, local_batches: Sequence[int] | None = None) -> float:
        """Make the step that was decided, and return its seconds.

        Args:
            local_batches: fewer samples than decided, in the last step of a pass over the data:
                nobody measures it.

        Raises:
            TrainingError: nothing was decided.
            InputError: `local_batches` is no split over these devices.
        """
        if self._decision is None:
            raise TrainingError(
                "VirtualClock.advance: nothing was decided", hint="call decide() before each step"
            )
        decided = self._decision.local_batches
        if local_batches is None:
            made = decided
        else:
            hint = f"samples of each of the {len(decided)} devices"
            made = integers("VirtualClock.advance(local_batches)", local_batches, hint)
            if len(made) != len(decided) or min(made) < 0:
                raise InputError(
                    f"VirtualClock.advance(local_batches): {list(made)} is no split", hint=hint
                )
        records = take_step(
            self.truth.at(self.step, self.seconds),
            made,
            step=self.step,
            plan=self._changes,
            micro_steps=self._decision.micro_steps,
            noise=self._noise,
        )
        self.step += 1
        self.seconds += records[0].step_seconds
        if made == decided:
            self.system.measured(records)
        return records[0].step_seconds


def checked_truth(caller: str, truth: object) -> VirtualTruth:
    """Return it; raise InputError where it is none."""
    return instance(f"{caller}(truth)", truth, VirtualTruth, "VirtualTruth(step_time_model)")


def checked_system(caller: str, system: object) -> System:
    """Return it; raise InputError where it is none."""
    hint = "an object of a class that extends staves.training.System, such as Learner()"
    return instance(f"{caller}(system)", system, System, hint)  # type: ignore[type-abstract]
