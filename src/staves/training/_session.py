"""What happens at step boundaries: commit, change membership, decide, save. One rank's side of it.

All of it happens where the loader is asked for the next batch, a place that every rank passes at
the same steps. Whatever waits for other ranks here can be given up when the generation breaks, and
is then done again in the next one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import ProcessGroup

from staves.errors import TrainingError
from staves.training import _group
from staves.training._adaptation import Adaptation
from staves.training._channel import Channel
from staves.training._crew import Crew, Generation
from staves.training._environment import Environment
from staves.training._exchange import Exchange
from staves.training._figures import Figures
from staves.training._interrupt import NOTICE_WITHIN, Interrupted, notice_comes, of_a_collective
from staves.training._links import Link
from staves.training._loader import Loader, Ticket
from staves.training._measuring import step_timer
from staves.training._memory import LocalMemory
from staves.training._pacing import Pacer
from staves.training._planner import Plan
from staves.training._planning import Planning
from staves.training._progress import Progress
from staves.training._random import seed_everything
from staves.training._saving import Saving
from staves.training._sharing import load_checkpoint, receive_state
from staves.training._splits import Split
from staves.training._statistics import RunningStatistics
from staves.training._step import Stepper
from staves.training._teller import Teller

_UNWEIGHTED = (
    "unweighted",
    "run.backward: this rank gives a weight, and another one does not",
    "give weight= on every rank, in every batch: 0 where nothing counts, len(batch) elsewhere",
)


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
        self.seed = seed
        profile = environment.device.profile
        self.pacer = None if profile is None else Pacer(profile)
        self.timer = step_timer(device, self.pacer)
        self.figures = Figures(self.pacer)
        self.stepper = Stepper(
            *(self.timer, self.pacer, self.figures),
            total=self._total,
            lost=self._lost,
            ran_out=self._ran_out,
            by_samples=self._by_samples,
        )
        self.stepper.on_failed_update = self._update_failed
        self.progress = Progress(self.figures, seed=seed)
        self.progress.adaptation = self.figures.adaptation = adaptation
        self.statistics = RunningStatistics(self.progress.state)
        self.stepper.adapt(adaptation, self.progress.state.optimizers, device)
        declared = self.pacer is not None
        self.planning = Planning(
            environment, self.progress, self.timer, batch=batch, split=split, declared=declared
        )
        self.teller = Teller(channel)
        self.ddp_options: dict[str, Any] = {}
        self.saving = Saving(self.progress, self.teller)
        self.in_epoch = self.leaving = False
        self.on_commit: list[Callable[[], None]] = []
        self._memory = LocalMemory(device, environment.cap(max_local_batch))
        Session._runs += 1
        self._run = Session._runs
        self._generation: Generation | None = None
        self._met: Generation | None = None  # before run.epochs, for good
        self._formed = self._has_state = False
        self._failed_update: BaseException | None = None
        self._exchange: Exchange | None = None
        self._group: ProcessGroup | None = None
        self._last_step_end: float | None = None
        crew.on_abandon, crew.waits = self.stepper.abandon, self._waits

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
        return self.planning.plan

    def plan_for(self, step: int) -> Plan:
        """Return the plan of that step, as far as it is decided."""
        return self.planning.plan_for(step)

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

    def meet(self, fingerprint: str) -> Generation:
        """Join the job's generation now, and for good: a model is to be spread over its ranks."""
        seat = self.environment.device, self._memory.cap
        self._met = self.crew.first(seat, fingerprint, fixed=True)
        if self.planning.split == "auto":
            self.planning.split = "even"
        return self._met

    def join(self, fingerprint: str) -> None:
        """Join the job's generation: the first, or the one in force when this rank came."""
        seat = self.environment.device, self._memory.cap
        generation = self._met or self.crew.first(seat, fingerprint)
        with contextlib.suppress(Interrupted):  # it broke before it was formed: the next one comes
            self._change(generation)
        self._pass_boundary()

    def settle(self) -> None:
        """Commit the step under way, if it is over: cursor, counts and measurements."""
        ticket = self.stepper.take()
        if ticket is None:
            if self.stepper.repeats and self.loader is not None:
                self.loader.reissue()
            return
        assert self.loader is not None
        self._memory.step_done(-(-ticket.local_batch // ticket.micro_steps))
        self.loader.cursor.commit(ticket.cut)
        figures, step = self.figures, self.committed_steps
        self.timer.note(
            step=step,
            plan=self.plan.number,
            samples=ticket.local_batch,
            micro_steps=ticket.micro_steps,
            whole=ticket.cut.batch == self.planning.batch,
        )
        self.stepper.learn(ticket, self.crew.interrupted)
        if self._last_step_end is not None:
            figures.pauses.append(time.perf_counter() - self._last_step_end)
            self._last_step_end = None
        figures.steps += 1
        figures.samples += ticket.cut.batch
        self.statistics.trained(ticket.local_batch)
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
        self.planning.take_in()
        self.figures.close_plan()
        self._tell_progress(now=True)
        if (self.rank == 0 or self.saving.together) and self._generation is not None:
            self.saving.save(wait=True, writes=self.rank == 0)
            self.timer.pause()
        self.channel.send("finished", rank=self.rank, report=self.report())

    def report(self) -> dict[str, Any]:
        """Return the figures so far."""
        self.planning.take_in()
        planner = self.planning.planner
        emulated = self.pacer is not None
        return self.figures.report(None if planner is None else planner.plan, emulated=emulated)

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
                wanted, main = self.crew.save_wanted, self.rank == 0
                if self.saving.due_together(self._exchange, rank=self.rank, wanted=wanted):
                    self.saving.save(wait=wanted, writes=main)
                    self.timer.pause()
                if wanted and main and self.saving.may_stay:
                    self.saving.save_for_good(lambda: self._tell_progress(now=True))
                    continue
                if self.stepper.short_of_memory:
                    self._run_with_less()
                step = self.committed_steps
                if self.planning.due(step):
                    self._decide()
                if self.statistics.due(step, self.loader):
                    self.statistics.average(self._exchange, step)
                    self.timer.pause()
                alike = self.saving.is_due() and self.statistics.may_save(step, self.world_size)
                if main and alike:
                    self.saving.save(wait=False)
                    self.timer.pause()
                return
            except Interrupted:
                self._formed = False

    def _change(self, generation: Generation) -> None:
        """Form a generation: its group, its state, its plan."""
        broken, self._formed = generation.after_loss or not self._formed, False
        first, before = self._generation is None, self.world_size
        if not first:
            self.planning.take_in()
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
        self.teller.formed(
            generation,
            step=self.committed_steps,
            loader=self.loader,
            checkpoint=self.saving.folder,
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
        self.statistics.average(self._exchange, self.committed_steps)
        self._share_state(generation)
        self.statistics.received(self.committed_steps)
        self.progress.agree(self._exchange, generation.source)
        self.figures.begin_generation([device.name for device, _ in generation.seats])
        self._settle_in(generation, group)

    def _settle_in(self, generation: Generation, group: ProcessGroup | None) -> None:
        """Plan by the caps that the ranks have by now, and reduce over the group from here on."""
        caps = self._memory.caps(self._exchange)
        devices = [device for device, _ in generation.seats]
        self.planning.make(devices, caps, self._exchange, rank=self.rank)
        self._group = group
        if self.pacer is not None:
            self.pacer.link = Link.of(devices)
        self._wrap()
        self.stepper.short_of_memory = False
        if self.loader is not None:
            self.loader.reissue()

    def _wrap(self) -> None:
        """Reduce gradients over the group from here on; all ranks come here at the same step."""
        if self._group is not None:
            about = self._group, self.device, self.ddp_options
            self.stepper.distribute(*about, accumulates=self.planning.may_accumulate)

    def _run_with_less(self) -> None:
        """A rank ran out of memory: its cap has been lowered, and the step comes again.

        The wrapper is made anew on all ranks alike: the one that failed is in the middle of it.
        """
        assert self._generation is not None
        self._settle_in(self._generation, self._group)
        self.timer.pause()
        self._tell_plan()

    def _share_state(self, generation: Generation) -> None:
        """Give the receivers the source's state; at the start of an attempt the checkpoint's."""
        if generation.rank == 0 and self.saving.checkpoints is not None:
            self.saving.checkpoints.claim()
        saved = None
        if not self._has_state:
            # Not only in a fresh generation: the first may have broken before it came to this.
            saved = load_checkpoint(generation, self.saving, self.progress, self.channel)
        if receive_state(generation, self._exchange, self.progress, self.crew, saved):
            self._failed_update = None
        self._has_state = True
        self.crew.complete()

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

    def _lost(self, error: Exception) -> bool:
        """Whether a failure means a broken generation; its notice may still be coming."""
        of_others = of_a_collective(error) or self.stepper.failed
        if not (self.channel.connected and of_others):
            return self.crew.interrupted()  # else the script's own error

        def late() -> None:
            self.channel.send("deserted", step=self.committed_steps)

        return self.crew.interrupted() or notice_comes(self.crew.interrupted, late=late)

    def _ran_out(self, samples: int) -> None:
        """This rank has run out of memory with that many samples at once."""
        cap = self._memory.ran_out(samples)
        self.channel.say(
            f"step {self.committed_steps}: rank {self.rank} ran out of memory with {samples}"
            f" samples; from here on it holds at most {cap} at once",
            cap=cap,
        )

    def _total(self, value: float) -> float:
        if self._exchange is None:
            return value
        absent = None if self.stepper.unweighted else _UNWEIGHTED
        return self._exchange.sum(value, absent=absent)[0]

    def _by_samples(self) -> None:
        """Let ranks that wait for this one's weight know that none comes."""
        if self._exchange is not None:
            self._exchange.raise_flag(_UNWEIGHTED[0])

    def _tell_progress(self, *, now: bool = False) -> None:
        if self._generation is not None and self.planning.planner is not None:
            about = self.figures, self.loader, self.plan, self._generation.number
            self.teller.progress(*about, now=now, whole=self.rank == 0)

    def _tell_plan(self, *, changed: bool = True) -> None:
        if self.rank == 0:
            about = self.plan, self.progress.adaptation
            self.teller.plan(*about, step=self.committed_steps, changed=changed)

    def _decide(self) -> None:
        """Gather what was measured, decide on rank 0, and tell all ranks."""
        changed = self.planning.decide(self._exchange)
        self.teller.knowledge(self.progress.knowledge, rank=self.rank)
        if changed:
            if self.stepper.static:  # and the plan may accumulate now
                self._wrap()
            if self.loader is not None:
                self.loader.reissue()
        self._tell_plan(changed=changed)
        self.timer.pause()
