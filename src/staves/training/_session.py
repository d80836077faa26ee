"""What happens at step boundaries: commit, change membership, decide, save. One rank's side of it.

All of it happens where the loader is asked for the next batch, a place that every rank passes at
the same steps. Whatever waits for other ranks here can be given up when the generation breaks, and
is then done again in the next one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from staves.errors import TrainingError
from staves.training import _group
from staves.training._adaptation import Adaptation
from staves.training._channel import Channel
from staves.training._checkpoint import Checkpoints
from staves.training._crew import Crew, Generation, Seat
from staves.training._environment import Environment
from staves.training._exchange import Exchange
from staves.training._figures import Figures
from staves.training._interrupt import (
    NOTICE_WITHIN,
    Interrupted,
    notice_comes,
    of_a_collective,
)
from staves.training._loader import Loader, Ticket
from staves.training._losses import learn_losses
from staves.training._measuring import Measuring, step_timer
from staves.training._pacing import Pacer
from staves.training._planner import Plan, Planner, check_split
from staves.training._progress import Progress
from staves.training._random import seed_everything
from staves.training._splits import Split, fixed_split
from staves.training._state import transfer
from staves.training._step import Stepper
from staves.training._teller import Teller


class Session:
    """The training loop's inside: a `LoaderHost`, and the owner of everything that changes."""

    _runs = 0  # of this process; ranks of one script make them in the same order

    def __init__(
        self,
        environment: Environment,
        device: torch.device,
        channel: Channel,
        crew: Crew,
        *,
        batch: int,
        seed: int,
        split: Split,
        max_local_batch: int | None,
        adaptation: Adaptation | None = None,
    ) -> None:
        self.environment, self.device, self.channel, self.crew = environment, device, channel, crew
        self.batch, self.seed, self.split = batch, seed, split
        profile = environment.device.profile
        self.pacer = None if profile is None else Pacer(profile)
        self.timer = step_timer(device, self.pacer)
        self.measuring = Measuring()
        self.figures = Figures(self.pacer)
        self.stepper = Stepper(self.timer, self.pacer, self.figures, self._total, self._lost)
        self.stepper.on_failed_update = self._update_failed
        self.progress = Progress(self.figures, seed=seed)
        self.progress.adaptation = self.figures.adaptation = adaptation
        self.stepper.adapt(adaptation, self.progress.state.optimizers, device)
        self.teller = Teller(channel)
        self.ddp_options: dict[str, Any] = {}
        self.checkpoints: Checkpoints | None = None
        self.planner: Planner | None = None
        self.in_epoch = self.leaving = self._saved_for_good = False
        self.on_commit: list[Callable[[], None]] = []
        self._seat: Seat = (environment.device, environment.cap(max_local_batch))
        Session._runs += 1
        self._run = Session._runs
        self._generation: Generation | None = None
        self._formed = self._has_state = False
        self._failed_update: BaseException | None = None
        self._exchange: Exchange | None = None
        self._last_step_end: float | None = None
        crew.on_abandon, crew.waits = self._abandon, self._waits
        if not isinstance(split, str) and not callable(split):
            known = environment.member is None  # else the supervisor says who trains together
            check_split(split, batch, environment.world_size if known else len(split))

    # -- what the loader asks

    @property
    def rank(self) -> int:
        """This process's rank in the generation in force."""
        return self.environment.rank if self._generation is None else self._generation.rank

    @property
    def world_size(self) -> int:
        """How many ranks train together."""
        generation = self._generation
        return self.environment.world_size if generation is None else generation.world_size

    @property
    def committed_steps(self) -> int:
        """How many steps have been committed."""
        return self.figures.steps

    @property
    def loader(self) -> Loader | None:
        """The training data, once there is a loader."""
        return self.progress.loader

    @property
    def epoch(self) -> int:
        """The pass over the data under way."""
        return self.figures.epochs if self.loader is None else self.loader.cursor.epoch

    @property
    def plan(self) -> Plan:
        """The split in use.

        Raises:
            TrainingError: before `run.epochs`.
        """
        if self.planner is None:
            raise TrainingError(
                "there is no plan before run.epochs", hint="read run.plan inside the loop"
            )
        return self.planner.plan

    def plan_for(self, step: int) -> Plan:
        """Return the plan of that step, as far as it is decided."""
        plan = self.plan
        if not callable(self.split):
            return plan
        assert self.planner is not None
        return self.planner.wanted(self.split(step), step)

    @property
    def complete(self) -> bool:
        """Whether progress is all that the script asks for, in the middle of a pass perhaps."""
        adaptation = self.progress.adaptation
        return adaptation is not None and adaptation.complete

    def before_batch(self) -> None:
        """Commit the step that is done; change, decide and save what is due; start the clock."""
        if not self.in_epoch:
            raise TrainingError(
                "the loader was used outside of run.epochs",
                hint="for epoch in run.epochs(n): for inputs, targets in batches: ...",
            )
        self.settle()
        try:
            self._pass_boundary()
        except SystemExit:  # this rank leaves the job
            self.leaving = True
            self.teller.loss(self.figures, self.loader)
            self.channel.send("deadlines", deadlines=self.figures.deadlines())
            raise
        self.stepper.start_clock()

    def begin(self, ticket: Ticket) -> None:
        """The batch of `ticket` is about to be used."""
        self.stepper.begin(ticket)
        seed_everything(self.seed, ticket.cut.epoch, ticket.start)

    def end_of_epoch(self) -> None:
        """Count the epoch, tell its loss, and pause the clock."""
        self.teller.loss(self.figures, self.loader, "epoch")
        loss, samples = map(float, self.figures.loss_so_far())
        if not self.channel.connected and self._exchange is not None:
            loss, samples = self._exchange.sum(loss, samples)
        # With a supervisor this is the rank's own part until the supervisor tells the whole.
        self.figures.end_epoch(loss, int(samples))
        self.timer.pause()

    # -- begin, commit, finish

    def join(self, fingerprint: str) -> None:
        """Join the job's generation: the first, or the one in force when this rank came."""
        generation = self.crew.first(self._seat, fingerprint)
        with contextlib.suppress(Interrupted):  # it broke before it was formed: the next one comes
            self._change(generation)
        self._pass_boundary()

    def settle(self) -> None:
        """Commit the step under way, if it is over: cursor, counts and measurements."""
        ticket = self.stepper.take()
        if ticket is None:
            return
        assert self.loader is not None
        self.loader.cursor.commit(ticket.cut)
        figures, step = self.figures, self.committed_steps
        record = self.timer.read(
            step=step,
            plan=self.plan.number,
            samples=ticket.local_batch,
            micro_steps=ticket.micro_steps,
            whole=ticket.cut.batch == self.batch,
        )
        self.stepper.learn(ticket, self.crew.interrupted)
        if record is not None and record.plan == self.plan.number:
            settled = self.measuring.settled(record.step)
            figures.measured(record, self.plan, settled=settled)
            if settled:
                self.measuring.take(record)
        if self._last_step_end is not None:
            figures.pauses.append(time.perf_counter() - self._last_step_end)
            self._last_step_end = None
        figures.steps += 1
        figures.samples += ticket.cut.batch
        for call in self.on_commit:
            call()
        generation = self._generation
        assert generation is not None
        self.teller.step(generation, step, ticket.cut)
        self._tell_progress()

    def finish(self) -> None:
        """Commit what is whole, save it, and report."""
        if not self.stepper.over:
            self.stepper.drop()
        self.settle()
        if self._failed_update is not None:
            raise TrainingError(
                "optimizer.step failed in the run's last step: these parameters belong to no step",
                hint="let its exception end the script",
            ) from self._failed_update
        if self.loader is not None:
            self.loader.close()
        self.figures.close_plan()
        self._tell_progress(now=True)
        if self.checkpoints is not None and self.rank == 0 and self._generation is not None:
            self._save(wait=True)
        report = self.figures.report(
            self.planner.plan if self.planner else None, emulated=self.pacer is not None
        )
        self.channel.send("finished", rank=self.rank, report=report)

    def leave_epoch(self) -> None:
        """Go on to the next pass, also where the script broke off this one."""
        if self.loader is None:
            self.figures.epochs += 1
            return
        if self.stepper.over:
            self.settle()
            if not self.loader.unfinished():
                self.loader.cursor.next_epoch()
                return
        self.break_off()

    def break_off(self) -> None:
        """Leave out the rest of this pass: the script wants no more of it."""
        if not self.stepper.over:
            self.stepper.drop()
        self.settle()
        self.figures.clear_loss()
        self.timer.pause()
        self.progress.break_off()

    # -- membership

    def _pass_boundary(self) -> None:
        """Do what is due at this boundary, again and again until a whole generation has done it."""
        given_up_at: float | None = None
        while True:
            change = self.crew.boundary(self.committed_steps)
            try:
                if change is not None:
                    self._change(change)
                if not self._formed:
                    # Given up; the supervisor is about to say which generation comes.
                    given_up_at = given_up_at or time.monotonic()
                    if time.monotonic() - given_up_at > NOTICE_WITHIN:
                        raise TrainingError("the generation could not be formed, and none came")
                    time.sleep(0.005)
                    continue
                if self.crew.save_wanted and self.rank == 0:
                    self._save_and_wait()
                    continue
                assert self.planner is not None
                if self.measuring.decision_due(self.planner, self.committed_steps):
                    self._decide()
                self._save_if_due()
                return
            except Interrupted:
                self._formed = False

    def _change(self, generation: Generation) -> None:
        """Form a generation: its group, its state, its plan."""
        broken, self._formed = generation.after_loss or not self._formed, False
        first, before = self._generation is None, self.world_size
        if not first:
            self._last_step_end = self.timer.last_end
            self.figures.close_plan()
            self._tell_progress(now=True)
            self._release(broken=broken)
        self._generation = generation
        try:
            self._form(generation)
        except Interrupted:
            # What was received so far lies aside: this rank's own state is as it was.
            self._release(broken=True)
            raise
        self._formed = True
        self.figures.generations += 1
        if not first and generation.rank == 0:
            names = ", ".join(device.name for device, _ in generation.seats)
            self.channel.say(
                f"step {self.committed_steps}: {before} -> {generation.world_size} devices: {names}"
            )
        folder = str(self.checkpoints.folder.absolute()) if self.checkpoints else None
        self.teller.formed(
            generation, step=self.committed_steps, loader=self.loader, checkpoint=folder
        )
        self.teller.knowledge(self.progress.knowledge, rank=self.rank)
        self._tell_progress(now=True)
        self.timer.pause()
        self._tell_plan()

    def _form(self, generation: Generation) -> None:
        interrupted = self.crew.interrupted
        group = None
        if generation.store is not None:
            self._exchange = Exchange(
                generation.store,
                generation=generation.number,
                rank=generation.rank,
                world_size=generation.world_size,
                interrupted=interrupted,
                run=self._run,
            )
            group = _group.form(
                generation.store,
                generation=generation.number,
                rank=generation.rank,
                world_size=generation.world_size,
                device=self.device,
                interrupted=interrupted,
            )
        seats: Sequence[Seat] = generation.seats
        if self._run > 1 and self._exchange is not None:  # a later run may have other caps
            seats = self._exchange.broadcast(self._exchange.gather(self._seat))
        self._share_state(generation)
        self.progress.agree(self._exchange, generation.source)
        self.figures.begin_generation([device.name for device, _ in seats])
        self._make_planner(seats)
        if group is not None:
            self.stepper.distribute(group, self.device, self.ddp_options)
        if self.loader is not None:
            self.loader.reissue()

    def _share_state(self, generation: Generation) -> None:
        """Give the receivers the source's state; at the start of an attempt the checkpoint's."""
        is_source = generation.rank == generation.source
        if generation.rank == 0 and self.checkpoints is not None:
            self.checkpoints.claim()
        if not self._has_state and is_source and self.checkpoints is not None:
            # Not only in a fresh generation: the first may have broken before it came to this.
            saved = self.checkpoints.latest()
            if saved is not None:
                self.progress.load(saved)
                self.channel.say(
                    f"resumed at step {self.committed_steps} from {self.checkpoints.folder}"
                )
        if generation.receivers and self._exchange is not None:
            received = transfer(
                self.progress.capture() if is_source else None,
                exchange=self._exchange,
                source=generation.source,
                receivers=generation.receivers,
                interrupted=self.crew.interrupted,
            )
            if received is not None:
                self.crew.incomplete()  # from here to the end of loading it is neither old nor new
                self.progress.load(received)
                self._failed_update = None
        self._has_state = True
        self.crew.complete()

    def _make_planner(self, seats: Sequence[Seat]) -> None:
        self.batch = self.progress.batch or self.batch
        self.planner = Planner(
            self.batch,
            [device for device, _ in seats],
            [cap for _, cap in seats],
            fixed_split(self.split, len(seats), first=self.figures.generations == 0),
            knowledge=self.progress.knowledge,
            since=self.committed_steps,
            number=self.progress.next_plan,
            compare=self.environment.measure_even,
            allowed=self.progress.allowed_batches(),
        )
        self.progress.next_plan += 1
        self.measuring.begin_generation(
            self.planner, self.rank, self._exchange, self.committed_steps
        )

    def _release(self, *, broken: bool) -> None:
        """Let go of the generation before; what it may still be stuck in is parked."""
        left = self.stepper.release()
        if broken:
            _group.park(*left)
        _group.leave(broken=broken)
        self._exchange = None

    def _waits(self) -> bool:
        """Called by the watcher: whether this rank waits for others."""
        return self.stepper.waits or (self._exchange is not None and self._exchange.waits)

    def _update_failed(self, error: BaseException) -> None:
        """Rule 7: this rank needs another's state, unless the script ends with that exception."""
        self._failed_update = error
        self.channel.say(f"optimizer.step failed on rank {self.rank}: {error!r}")
        self.crew.incomplete()

    def _abandon(self) -> None:
        """Called by the watcher: fail the buckets under way."""
        reducer = self.stepper.reducer
        if reducer is not None:
            reducer.abandon(RuntimeError("the generation has lost a member"))

    def _lost(self, error: Exception) -> bool:
        """Whether a failure means a broken generation; its notice may still be coming."""
        if self.crew.interrupted():
            return True
        reducer = self.stepper.reducer
        of_others = of_a_collective(error) or (reducer is not None and reducer.failed)
        if not (self.channel.connected and of_others):
            return False  # the script's own error
        return notice_comes(
            self.crew.interrupted,
            late=lambda: self.channel.send("deserted", step=self.committed_steps),
        )

    def _total(self, value: float) -> float:
        return self._exchange.sum(value)[0] if self._exchange else value

    def learn_losses(self) -> None:
        """Take the losses of whole epochs that the supervisor has added up; wait for the last."""
        if self.channel.connected:
            learn_losses(self.figures, self.crew)

    def _tell_progress(self, *, now: bool = False) -> None:
        if self._generation is not None and self.planner is not None:
            about = self.figures, self.loader, self.plan, self._generation.number
            self.teller.progress(*about, now=now, whole=self.rank == 0)

    def _tell_plan(self) -> None:
        if self.rank == 0 and self.world_size > 1:
            self.teller.plan(self.plan, step=self.committed_steps)

    # -- decisions and checkpoints

    def _decide(self) -> None:
        """Gather what was measured, decide on rank 0, and tell all ranks."""
        planner, step = self.planner, self.committed_steps
        assert planner is not None
        changed = self.measuring.decide(planner, self._exchange, step, self.progress.noise_scale)
        self.batch = planner.batch
        self.progress.decided(planner)
        self.teller.knowledge(self.progress.knowledge, rank=self.rank)
        if changed:
            if self.loader is not None:
                self.loader.reissue()
            self._tell_plan()
        self.timer.pause()

    def _save_if_due(self) -> None:
        saves = self.rank == 0 and self.committed_steps > 0
        if self.checkpoints is not None and saves and self.checkpoints.is_due():
            self._save(wait=False)

    def _save_and_wait(self) -> None:
        """Save for good, say so, and pass no boundary any more: the supervisor ends the job here.

        A step needs every rank's gradients. As long as rank 0 stays here nobody commits a further
        one, so this boundary is the job's last on all ranks, however far each of them has come.
        """
        if not self._saved_for_good:
            self._saved_for_good = True
            self._tell_progress(now=True)
            if self.checkpoints is not None:
                self._save(wait=True)
            self.teller.saved(self.checkpoints, step=self.committed_steps)
        time.sleep(0.005)

    def _save(self, *, wait: bool) -> None:
        assert self.checkpoints is not None
        self.checkpoints.save(self.progress.capture(), step=self.committed_steps, wait=wait)
        self.timer.pause()
