"""An engine on simulated time: what a cluster would do with its jobs, told as engines tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from staves.engines._base import Engine, Launch, Status
from staves.errors import InputError, StavesError, quoted
from staves.hardware import Cluster, Device
from staves.simulation._machine import Machine
from staves.simulation._training import Overheads, Saved, SimulatedTraining, TrainingTruth


class SimulatedEngine(Engine):
    """Runs training jobs on simulated time; it is exact, and draws nothing at random.

    Whoever steers it cannot tell it from another engine. Time is that of `clock`, which may only
    go forward; between two calls everything happens that happens in between.

    Args:
        cluster: its types are emulated, or every job's truth says how fast it is on them.
        truths: what each job truly is, by id; may be filled as jobs come.
        overheads: what starts and changes cost.
        clock: seconds.
    """

    name: str = "simulated"

    def __init__(
        self,
        cluster: Cluster,
        truths: Mapping[str, TrainingTruth],
        overheads: Overheads,
        clock: Callable[[], float],
    ) -> None:
        self._cluster, self._truths, self._overheads = cluster, truths, overheads
        self._clock = clock
        self._machine = Machine(overheads.cores)
        self._attempts: dict[tuple[str, int], SimulatedTraining] = {}
        self._saved: dict[str, Saved] = {}

    def cluster(self) -> Cluster:
        """Return the nodes and devices there are."""
        return self._cluster

    def launch(self, launch: Launch) -> None:
        """Start an attempt, unless it has been started already.

        Raises:
            InputError: it names no device, one twice, or one on which nobody knows its speed; or
                nothing is known of the job.
            StavesError: an earlier attempt of the job still runs.
        """
        now = self._advance()
        key = launch.job, launch.attempt
        if key in self._attempts:
            return
        if launch.job not in self._truths:
            raise InputError(f"{launch.job}: nobody has said what this job is")
        truth = self._truths[launch.job]
        self._check(launch.devices, truth)
        for (job, attempt), other in self._attempts.items():
            if job == launch.job and other.ended_at > now:
                raise StavesError(f"{job}/{attempt} still runs", hint="stop it first")
        saved = self._saved.get(launch.job, Saved())
        self._attempts[key] = SimulatedTraining(
            truth, self._overheads, self._machine, launch.devices, saved, now
        )

    def resize(self, job: str, attempt: int, devices: Sequence[Device], request: int) -> None:
        """Give a running attempt these devices from its next possible step boundary on.

        Raises:
            InputError: no attempt was launched, or the devices are none that it could have.
        """
        now = self._advance()
        if (job, attempt) not in self._attempts:
            raise InputError(f"{job}/{attempt}: was never launched")
        self._check(devices, self._truths[job])
        training = self._attempts[job, attempt]
        if request > training.request and training.ended is None:
            training.resize(devices, request, now)

    def stop(self, job: str, attempt: int, *, save: bool, grace: float) -> None:
        """End an attempt: with a checkpoint at its next step boundary, or as it stands."""
        now = self._advance()
        training = self._attempts.get((job, attempt))
        if training is not None and training.ended is None:
            training.stop(save=save, grace=grace, now=now)

    def status(self, job: str, attempt: int) -> Status:
        """Return how an attempt stands."""
        now = self._advance()
        training = self._attempts.get((job, attempt))
        if training is None:
            return Status("absent")
        if training.starting() and training.ended is None:
            return Status("starting")
        over = training.ended is not None and training.ended_at <= now
        return Status(
            phase="ended" if over else "running",
            elastic=True if training.formed else None,
            request=training.request,
            wanted=tuple(device.name for device in training.wanted),
            devices=tuple(device.name for device in training.devices),
            generation=training.generation,
            progress=training.progress(),
            knowledge=training.knowledge.to_document() if training.formed else None,
            spans=tuple(training.spans),
            ended=training.ended if over else None,
        )

    def logs(self, job: str, attempt: int) -> dict[str, Path]:
        """Return nothing: nobody prints."""
        return {}

    def news(self, telling: int) -> tuple[object, ...]:
        """Return what changes only where something has happened but that steps were made.

        Whoever looks at every status only when this has changed misses nothing else. `telling`:
        steps from which on the time of one on a single device counts as measured.
        """
        now = self._advance()
        return tuple(training.news(now, telling) for training in self._attempts.values())

    def _advance(self) -> float:
        now = self._clock()
        self._machine.advance(now)
        for (job, _), training in self._attempts.items():
            if training.ended is None:
                training.advance(now)
                if training.ended is not None and training.ended.end == "saved":
                    self._saved[job] = training.saved
        return now

    def _check(self, devices: Sequence[Device], truth: TrainingTruth) -> None:
        names = [device.name for device in devices]
        if not names or len(set(names)) < len(names):
            raise InputError(f"devices: {', '.join(names) or 'none'} cannot be had")
        for device in devices:
            if device.type.profile is None and device.type.name not in truth.lines:
                raise InputError(
                    f"{device.name}: nobody knows how fast the job is there",
                    hint=f"{quoted(device.type.name)} is not emulated: give its lines",
                )
