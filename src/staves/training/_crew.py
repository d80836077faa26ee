"""Whom this rank trains with: fixed for the whole run, or as the supervisor says."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch._C._distributed_c10d import Store, TCPStore

from staves.errors import TrainingError
from staves.membership import Commit, Follower, Joiner
from staves.training import _group
from staves.training._channel import Channel
from staves.training._environment import Environment, WorkerDevice
from staves.training._exchange import Exchange
from staves.training._interrupt import Interrupted

Seat = tuple[WorkerDevice, int | None]
"""A rank's device, and the most samples that it holds at once."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One membership of the job, as this rank sees it.

    `after_loss`: the generation before has broken, and its collectives may hang for ever.
    `source` is the rank whose state wins; `receivers` are the ranks that take it. `store` is None
    for a process that is alone and has no supervisor.
    """

    number: int
    attempt: int
    rank: int
    seats: tuple[Seat, ...]
    source: int
    receivers: tuple[int, ...]
    fresh: bool
    store: Store | None
    after_loss: bool = False

    @property
    def world_size(self) -> int:
        """How many ranks train together."""
        return len(self.seats)


class Crew(Protocol):
    """What a run asks about its membership."""

    on_abandon: Callable[[], None]
    waits: Callable[[], bool]
    """Whether this rank waits for others at this moment."""
    losses: dict[int, float]
    """Mean losses of epochs over all ranks, as far as the supervisor has told them."""
    save_wanted: bool
    """Whether the job is to end at the next step boundary, with a checkpoint by rank 0."""

    def first(self, seat: Seat, fingerprint: str, *, fixed: bool = False) -> Generation:
        """Say that this rank is ready, and wait for its first generation.

        `fixed`: its members cannot change, since each holds a part of the model.
        """

    def boundary(self, step: int) -> Generation | None:
        """Return the generation to change to at this step boundary, or None to go on."""

    def interrupted(self) -> bool:
        """Whether the generation in force has broken."""

    def complete(self) -> None:
        """This rank's state belongs to one committed step, and all of it is here."""

    def incomplete(self) -> None:
        """This rank's state belongs to no committed step any more."""


class FixedCrew:
    """The members that the launcher started, for good: plain `python` and torchrun."""

    def __init__(self, environment: Environment, device: torch.device) -> None:
        self._environment, self._device = environment, device
        self._generation: Generation | None = None
        self._complete = True
        self.on_abandon: Callable[[], None] = lambda: None
        self.waits: Callable[[], bool] = lambda: False
        self.losses: dict[int, float] = {}
        self.save_wanted = False

    def first(self, seat: Seat, fingerprint: str, *, fixed: bool = False) -> Generation:
        """Learn the other ranks' devices. `fingerprint` is not compared: nobody joins later."""
        rank, world = self._environment.rank, self._environment.world_size
        if self._generation is not None:  # a second run in this process
            return self._generation
        if world == 1:
            return Generation(1, 1, 0, (seat,), 0, (), True, None)
        store = _group.join_by_environment(self._device)
        exchange = Exchange(
            store, generation=0, rank=rank, world_size=world, interrupted=self.interrupted
        )
        seats = exchange.broadcast(exchange.gather(seat))
        everyone = tuple(range(1, world))
        self._generation = Generation(1, 1, rank, tuple(seats), 0, everyone, True, store)
        return self._generation

    def boundary(self, step: int) -> Generation | None:
        """Never changes.

        Raises:
            TrainingError: this rank's update failed, and there is nobody to take a state from.
        """
        if not self._complete:
            raise _no_state("`staves run` mends a rank among several")
        return None

    def interrupted(self) -> bool:
        """Never: torchrun ends all ranks when one dies."""
        return False

    def complete(self) -> None:
        """Training may go on."""
        self._complete = True

    def incomplete(self) -> None:
        """Training ends at the next boundary."""
        self._complete = False


class SupervisedCrew:
    """The members that the supervisor says; a thread listens to it.

    Failure notice comes from the supervisor, never from a collective (rule 1): on notice the
    watcher fails what is under way, and the main thread finds out at the next boundary.
    """

    def __init__(self, environment: Environment, channel: Channel) -> None:
        assert environment.member is not None
        self.on_abandon: Callable[[], None] = lambda: None
        self.waits: Callable[[], bool] = lambda: False
        self.losses: dict[int, float] = {}
        self.save_wanted = self._dismissed = False
        self._member = environment.member
        self._channel = channel
        self._follower = Follower(environment.member)
        self._fixed, self._whole, self._step = False, True, 0
        self._changed = threading.Condition()
        self._broken = False
        self._current: Generation | None = None
        self._addresses: dict[int, tuple[str, int]] = {}
        threading.Thread(target=self._listen, name="staves-watcher", daemon=True).start()

    def first(self, seat: Seat, fingerprint: str, *, fixed: bool = False) -> Generation:
        """Say hello, and wait until a generation includes this rank."""
        if self._current is not None:  # a second run in this process starts where that one is
            everyone = tuple(r for r in range(self._current.world_size) if r != 0)
            self._fixed |= fixed
            return replace(self._current, source=0, receivers=everyone, fresh=True)
        self._fixed = fixed
        device, cap = seat
        about = {
            "cap": cap,
            "device": {
                "name": device.name,
                "type": device.type,
                "profile": device.profile.to_document() if device.profile else None,
                "link": device.link,
            },
        }
        self._channel.send("hello", **asdict(Joiner(fingerprint, about)), fixed=fixed)
        while True:
            generation = self.boundary(0)
            if generation is not None:
                return generation

    def boundary(self, step: int) -> Generation | None:
        """Answer proposals, wait where the machine says so, and change over when it is time.

        Raises:
            SystemExit: this rank leaves the job.
            TrainingError: its update failed, and no other rank has its part of the model.
        """
        if self._fixed and not self._whole:
            raise _no_state("with a sharded model nothing mends a rank")
        self._step = step
        while True:
            with self._changed:
                action = self._follower.boundary(step, time.monotonic())
                self._answer()
                if self._dismissed:
                    action = "leave"
                commit = self._follower.switched() if action == "switch" else None
                if commit is not None:
                    self._broken = False
                    self._answer()
            if action == "go":
                return None
            if action == "leave":
                self._channel.send("left", step=step)
                sys.exit(0)
            if commit is not None:
                try:
                    self._current = self._generation(commit)
                    return self._current
                except Interrupted:
                    continue
            with self._changed:
                self._changed.wait(0.02)

    def interrupted(self) -> bool:
        """Whether notice has come that the generation in force is broken."""
        return self._broken

    def complete(self) -> None:
        """Tell the machine."""
        self._whole = True
        with self._changed:
            self._follower.state_received()
            self._answer()

    def incomplete(self) -> None:
        """Tell the machine."""
        self._whole = False
        with self._changed:
            self._follower.incomplete()
            self._answer()

    def _answer(self) -> None:
        """Send what the machine has to say, if anything; the lock is held."""
        answer = self._follower.answer()
        if answer is not None:
            generation, step, complete = answer
            self._channel.send("prepared", generation=generation, step=step, complete=complete)

    def _generation(self, commit: Commit) -> Generation:
        ranks = {member: rank for rank, member in enumerate(commit.members)}
        source = commit.members[0] if commit.source is None else commit.source
        seats = tuple(_seat(about) for about in commit.about)
        return Generation(
            number=commit.generation,
            attempt=commit.attempt,
            rank=ranks[self._member],
            seats=seats,
            source=ranks[source],
            receivers=tuple(ranks[member] for member in commit.receivers),
            fresh=commit.source is None,
            after_loss=commit.switch is None,
            store=self._store(commit.store) if len(commit.members) > 1 else None,
        )

    def _store(self, number: int) -> TCPStore:
        """Connect anew: a rendezvous that was left behind holds its connection's lock for ever."""
        host, port = self._addresses[number]
        try:
            return TCPStore(host, port, is_master=False, timeout=timedelta(seconds=30))
        except RuntimeError as error:
            raise Interrupted from error

    def _listen(self) -> None:
        for message in self._channel.receive():
            with self._changed:
                self._handle(message)
                self._answer()
                self._changed.notify_all()
            if self._broken and self._fixed:
                self._end_parted()
            if self._broken:
                self.on_abandon()
        # The supervisor has gone; its death ends this process too, and must not wait for user code.
        _group.end_process(1)

    def _end_parted(self) -> None:
        """End this rank of a sharded model, which waits for others' parts where only its end helps.

        Not rank 0 where it has saved for the job's end: it stays at a boundary, and leaves there.
        """
        if not self._dismissed:
            self._channel.say("a rank is lost, and with it a part of the model: the run ends")
            _group.end_process(1)
        if not self.save_wanted:
            self._channel.send("left", step=self._step)
            _group.end_process(0)

    def _handle(self, message: dict[str, Any]) -> None:
        kind = message.pop("kind")
        if kind == "propose":
            notice = self._follower.proposed(message["generation"], message["broken"])
            if notice is not None:
                self._broken = True
        elif kind == "withdraw":
            self._follower.withdrawn(message["generation"])
        elif kind == "save":
            self.save_wanted = True
        elif kind == "leave":
            # The step under way can come to no end without the ranks that leave: it is void.
            self._dismissed = self._broken = True
        elif kind == "loss":
            self.losses[message["epoch"]] = message["loss"]
        elif kind == "lease":
            self._follower.lease(time.monotonic() + message["seconds"])
            self._channel.send("beat", waits=self.waits())
        elif kind == "commit":
            host, port = message.pop("address")
            self._addresses[message["store"]] = (host, port)
            message["about"] = tuple(message["about"])
            for name in ("to", "members", "receivers"):
                message[name] = tuple(message[name])
            self._follower.committed(Commit(**message))


def _no_state(reason: str) -> TrainingError:
    return TrainingError(
        "optimizer.step failed, and no other rank can give this one a whole state",
        hint=f"let its exception end the script; {reason}",
    )


def _seat(about: dict[str, Any]) -> Seat:
    return WorkerDevice.from_document(about["device"]), about["cap"]
