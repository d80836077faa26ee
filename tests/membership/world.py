"""A random history of a job: a Coordinator, stub workers, delays, faults; and what must hold.

Everything follows from the seed. A worker's channel is a reliable ordered stream; messages to it,
and all but its answers from it, may be repeated. The stream ends with the worker, and what is under
way then may be lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from tests.membership.stub import State, Stub

from staves.membership import (
    ROWS_WITH_STATE,
    Command,
    Commit,
    Coordinator,
    End,
    Fail,
    Joiner,
    Ledger,
    Propose,
    Quarantine,
    Restart,
    Start,
    Withdraw,
    attempt_row,
    generation_row,
    prove,
    stands,
)

GRACE, JOIN, START, LEASE = 10.0, 3.0, 20.0, 10.0


class BrokenRule(AssertionError):
    """An invariant does not hold."""


class World:
    def __init__(self, seed: int, *, epochs: int | None = None, gentle: bool = False) -> None:
        self.seed, self.random = seed, Random(seed)
        r = self.random
        self.now, self.count = 0.0, 0
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.length, self.epochs = r.randint(20, 120), r.randint(1, 3)
        self.all_slots = [f"n{i}/{j}" for i in range(r.randint(1, 4)) for j in range(2)]
        self.minimum = r.choice((1, 1, 1, 2))
        first = r.sample(self.all_slots, r.randint(self.minimum, len(self.all_slots)))
        self.strict = not gentle and r.random() < 0.1
        self.coordinator = Coordinator(
            slots=first,
            minimum=self.minimum,
            grace=GRACE,
            join_within=JOIN,
            quarantine=Quarantine(3 if self.strict else 10**6),
            start_within=START,
        )
        self.stubs: dict[int, Stub] = {}
        self.by_slot: dict[str, Stub] = {}
        self.ledger = Ledger()
        self.checkpoint: State | None = State(0, 0, 0, 0)
        self.checkpoints: list[tuple[int, int, State]] = []
        self.reductions: dict[tuple[int, int], dict[int, tuple[Stub, int]]] = {}
        self.transferred: set[tuple[int, int]] = set()
        self.served: set[tuple[int, int]] = set()
        self.outstanding: int | None = None
        self.told: list[int] = []
        self.proposed_at = 0.0
        self.number = self.entered = self.store = 0
        self.failure: str | None = None
        self.nobody_whole = False
        self.restarts = self.commits = self.kills = 0
        self.tick_at: float | None = None
        # Faults.
        self.faults_until = r.uniform(5.0, 60.0)
        self.left = r.choice((0, 1, 2, 3, 5, 8))
        self.chaos_rate = r.choice((0.0, 0.01, 0.05))
        self.update_errors = r.choice((0.0, 0.0, 0.03))
        self.hang_rate = r.choice((0.0, 0.0, 0.02))
        self.bad_start = r.choice((0.0, 0.1, 0.3))
        self.unlike = r.choice((0.0, 0.0, 0.0, 0.1))
        self.repeats = r.choice((0.0, 0.1))
        if epochs is not None:
            self.epochs = epochs
        if gentle:
            self.unlike = 0.0
        self.leases = r.random() < 0.25
        self.latency = r.choice((0.01, 0.1, 1.0, 2.0))

    # The clock.

    def at(self, delay: float, call: Callable[..., None], *arguments: Any) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now + delay, self.count, call, arguments))

    def run(self) -> World:
        r = self.random
        for _ in range(self.left):
            self.at(r.uniform(0.0, self.faults_until), self.fault)
        for _ in range(r.choice((0, 1, 2, 4))):
            when = r.uniform(0.0, self.faults_until)
            for _ in range(r.choice((1, 1, 3))):
                self.at(when + r.uniform(0.0, 1.0), self.wish)
        self.obey(self.coordinator.start(0.0))
        limit = 3000.0
        while self.events and not self.done():
            self.now, _, call, arguments = heapq.heappop(self.events)
            if self.now > limit:
                self.complain("no progress")
            call(*arguments)
        if not self.done():
            self.complain("nothing more happens, and the job is not over")
        self.judge()
        return self

    def done(self) -> bool:
        if self.failure is not None:
            return True
        return self.coordinator.over and not any(s.alive for s in self.stubs.values())

    def complain(self, what: str) -> None:
        raise BrokenRule(f"seed {self.seed}, at {self.now:.2f} s: {what}")

    def judge(self) -> None:
        proof = prove(self.ledger.rows, self.length)
        if not proof.ok:
            self.complain("; ".join(proof.problems))
        if self.failure is not None:
            if not (self.strict or self.unlike or self.nobody_whole):
                self.complain(f"failed without a reason: {self.failure}")
            return
        full = [e.samples for e in proof.epochs]
        if full != [self.length] * self.epochs or proof.epochs[-1].unfinished:
            self.complain(f"epochs of {full} samples instead of {self.length}")

    # The supervisor.

    def event(self, name: str, *arguments: Any, **options: Any) -> None:
        if self.failure is None:
            call = getattr(self.coordinator, name)
            self.obey(call(*arguments, self.now, **options))

    def tick(self) -> None:
        if self.tick_at is not None and self.now >= self.tick_at:
            self.tick_at = None
            self.event("tick")

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            getattr(self, f"on_{type(command).__name__.lower()}")(command)
        due = self.coordinator.next_deadline()
        if due is not None and (self.tick_at is None or due < self.tick_at):
            if due <= self.now:
                self.complain("a deadline that is not in the future")
            self.tick_at = due
            self.at(due - self.now + 1e-9, self.tick)

    def on_start(self, command: Start) -> None:
        old = self.by_slot.get(command.slot)
        if old is not None and old.alive and not old.declared:
            self.complain(f"two workers on {command.slot}")
        stub = Stub(self, command.member, command.slot)
        self.stubs[command.member] = self.by_slot[command.slot] = stub
        r = self.random
        if self.faulty() and r.random() < self.bad_start:
            if r.random() < 0.7:
                self.at(r.uniform(0.0, 3.0), self.die, stub)
            return
        stub.later(r.uniform(0.1, 3.0), "starting", "hello")
        if self.leases:
            self.renew(stub)

    def on_end(self, command: End) -> None:
        stub = self.stubs[command.member]
        stub.ended = True
        incumbent = stub.follower.generation > 0 and stub.alive
        if incumbent and "answer in time" in command.reason and not (stub.hung or self.leases):
            self.complain(f"{stub.member} was ended though it did nothing wrong")
        if not command.politely:
            self.at(self.random.uniform(0.0, 0.5), self.die, stub)
        elif self.random.random() < 0.9:
            self.at(self.random.uniform(0.0, 0.5), self.die, stub, self.random.random() < 0.5)

    def on_propose(self, command: Propose) -> None:
        if self.outstanding != command.generation:
            told = [self.stubs[m] for m in self.told]
            if self.outstanding and any(s.alive and not (s.ended or s.declared) for s in told):
                self.complain("a second proposal")
            if command.generation <= self.number:
                self.complain("a number was used twice")
            self.told = []
            self.proposed_at = self.now
        self.told += command.to
        self.outstanding = self.number = command.generation
        self.tell(command)

    def on_withdraw(self, command: Withdraw) -> None:
        self.outstanding = None
        self.tell(command)

    def on_commit(self, command: Commit) -> None:
        if command.source is not None and self.outstanding != command.generation:
            self.complain("a commit that was not proposed")
        if command.source is not None and self.minimum == 1:
            self.check_soon()
        self.number = max(self.number, command.generation)
        self.outstanding = None
        self.commits += 1
        self.check_apart()
        if not self.ledger.add(generation_row(command)):
            self.complain("a generation was committed twice")
        self.tell(command)

    def on_restart(self, command: Restart) -> None:
        for stub in self.stubs.values():
            if self.is_complete(stub):
                self.complain(f"restarted while {stub.member} was complete")
        self.restarts += 1
        self.outstanding = None
        standing = [
            state
            for attempt, generation, state in self.checkpoints
            if stands(self.ledger.rows, attempt, generation, state.step)
        ]
        self.checkpoint = standing[-1] if standing else State(0, 0, 0, 0)
        self.ledger.add(attempt_row(command.attempt, self.checkpoint.step))

    def on_fail(self, command: Fail) -> None:
        if "optimizer.step failed" in command.reason:
            if any(self.is_complete(stub) for stub in self.stubs.values()):
                self.complain("failed by a failed update while somebody was complete")
            self.nobody_whole = self.update_errors > 0
        self.failure = command.reason

    def others(self, stub: Stub) -> bool:
        """Whether another one is complete: an update that fails on the last one ends the job."""
        return any(self.is_complete(each) for each in self.stubs.values() if each is not stub)

    def is_complete(self, stub: Stub) -> bool:
        in_force = stub.alive and stub.follower.complete and stub.follower.generation > 0
        gone = stub.ended or stub.declared or stub.mode in ("leaving", "finished")
        return in_force and not gone and stub.member in self.coordinator._force.circle

    def check_soon(self) -> None:
        """Rules 4 and 13: joiners and incumbents have so long to answer, and no longer."""
        if self.now - self.proposed_at > JOIN + GRACE + 0.1:
            self.complain(f"proposed at {self.proposed_at:.2f} s, and committed only now")

    def check_apart(self) -> None:
        steps = [s.follower.step for s in self.stubs.values() if self.is_complete(s)]
        if steps and max(steps) - min(steps) > 1:
            self.complain(f"members at steps {steps}")

    # Channels.

    def tell(self, command: Propose | Withdraw | Commit) -> None:
        for member in command.to:
            self.deliver(self.stubs[member], command)

    def deliver(self, stub: Stub, message: Any) -> None:
        for _ in range(2 if self.random.random() < self.repeats else 1):
            when = self.now + self.random.random() * self.latency
            stub.inbox_free = max(stub.inbox_free + 1e-6, when)
            self.at(stub.inbox_free - self.now, self.arrive, stub, message)

    def arrive(self, stub: Stub, message: Any) -> None:
        if stub.cut:
            stub.sent.append([stub.receive, message])
        else:
            stub.receive(message)

    def send(self, stub: Stub, message: tuple[Any, ...]) -> None:
        repeated = message[0] != "prepared" and self.random.random() < self.repeats
        for _ in range(1 + repeated):
            when = self.now + self.random.random() * self.latency
            stub.outbox_free = max(stub.outbox_free + 1e-6, when)
            self.at(stub.outbox_free - self.now, self.hear, stub, message)

    def hear(self, stub: Stub, message: tuple[Any, ...]) -> None:
        if stub.cut:
            stub.sent.append([self.hear_now, stub, message])
        else:
            self.hear_now(stub, message)

    def hear_now(self, stub: Stub, message: tuple[Any, ...]) -> None:
        if stub.mode == "deaf" or stub.declared:
            return
        if message[0] == "row":
            self.ledger.add(message[1])
        else:
            if message[0] == "finished" and not stub.ended:
                self.ledger.add(message[1])
                self.event("finished", stub.member)
            elif message[0] != "finished":
                self.event(message[0], stub.member, *message[1:])

    # Deaths and other faults.

    def faulty(self) -> bool:
        return self.now < self.faults_until

    def die(self, stub: Stub, failed: bool = True) -> None:
        if not stub.alive:
            return
        stub.alive = False
        self.kills += failed
        if failed and stub.mode in ("reducing", "updating"):
            self.tear(stub)
        if failed and self.random.random() < 0.5:
            stub.mode = "deaf"
        delay = max(stub.outbox_free - self.now, 0.0) + self.random.uniform(0.001, 0.5)
        self.at(delay, self.report, stub, failed)

    def report(self, stub: Stub, failed: bool) -> None:
        """Its exit is told after all that it sent has come in."""
        if stub.cut:
            stub.sent.append([self.report, stub, failed])
        elif not stub.declared:
            stub.declared = True
            self.event("exited", stub.member, failed=failed)

    def fault(self) -> None:
        alive = [s for s in self.stubs.values() if s.alive]
        kind = self.random.random()
        if not alive or not self.faulty():
            return
        if kind < 0.6:
            self.die(self.random.choice(alive))
        elif kind < 0.8:
            self.store += 1
            self.event("store_lost")
        elif self.leases:
            stub = self.random.choice(alive)
            stub.cut = True
            self.at(self.random.uniform(1.0, 20.0), self.heal, stub)
            self.at(LEASE + 2.0, self.give_up, stub)

    def heal(self, stub: Stub) -> None:
        stub.cut = False
        held, stub.sent = stub.sent, []
        for call, *arguments in held:
            call(*arguments)
        if stub.declared:
            self.die(stub)
        elif stub.alive and stub.mode == "reducing":
            self.enter(stub)

    def give_up(self, stub: Stub) -> None:
        """The node's lease has ended: its worker counts as dead."""
        if stub.cut and not stub.declared:
            stub.declared = True
            self.event("exited", stub.member, failed=True)

    def renew(self, stub: Stub) -> None:
        if stub.alive:
            if not stub.cut:
                self.deliver(stub, self.now + LEASE)
            self.at(3.0, self.renew, stub)

    def chaos(self, point: str, stub: Stub) -> None:
        """Kill somebody at just this point."""
        if not self.faulty() or self.random.random() >= self.chaos_rate:
            return
        commit = stub.follower._commit or stub.commit
        victims = [stub]
        if commit is not None:
            victims = [self.stubs[m] for m in commit.members if self.stubs[m].alive] or victims
            if commit.source is not None and self.random.random() < 0.3:
                victims = [self.stubs[commit.source]]
        self.die(stub if self.random.random() < 0.4 else self.random.choice(victims))

    def wish(self) -> None:
        count = self.random.randint(self.minimum, len(self.all_slots))
        self.event("want", self.random.sample(self.all_slots, count))

    def fingerprint(self, stub: Stub) -> Joiner:
        unlike = self.random.random() < self.unlike
        return Joiner("other" if unlike else "same", {"slot": stub.slot})

    # Training.

    def computing_time(self, stub: Stub) -> float:
        if self.faulty() and self.random.random() < self.hang_rate:
            stub.hung = True
            return GRACE * self.random.choice((0.7, 1.5, 3.0, 100.0))
        return stub.slow * self.random.uniform(0.3, 1.0)

    def check_go(self, stub: Stub) -> None:
        if stub.lease_end is not None and self.now >= stub.lease_end:
            self.complain(f"{stub.member} steps without a lease")
        generation = stub.follower.generation
        if stub.ended or stub.declared:
            return
        if generation < self.entered:
            self.complain(f"{stub.member} steps in {generation} after {self.entered}")
        self.entered = generation

    def enter(self, stub: Stub) -> None:
        commit, state = stub.commit, stub.state
        assert commit is not None
        assert state is not None
        if stub.cut or commit.store != self.store:
            return
        group = self.reductions.setdefault((commit.generation, state.step), {})
        group[stub.member] = (stub, stub.turn)
        if len(group) < len(commit.members) or any(not s.alive for s, _ in group.values()):
            return
        if len({s.state for s, turn in group.values() if s.turn == turn}) > 1:
            self.complain(f"states differ at step {state.step}")
        del self.reductions[(commit.generation, state.step)]
        for other, turn in group.values():
            if other.turn != turn and self.random.random() < 0.5:
                return  # It has abandoned this, and its part of the sum did not get out.
        inside = [s for s, turn in group.values() if s.turn == turn]
        for other in inside:
            other.later(self.random.uniform(0.01, 0.2), "reducing", "reduced")
        if self.random.random() < self.chaos_rate:
            victim = self.random.choice(inside)
            self.at(self.random.uniform(0.0, 0.2), self.strike, victim)

    def strike(self, victim: Stub) -> None:
        if self.faulty():
            self.die(victim)

    def tear(self, victim: Stub) -> None:
        """A member dies in the middle of an all-reduce: some of the others have it, some not."""
        for other in self.stubs.values():
            together = other.mode == "reducing" and other.commit is victim.commit
            if together and other.state == victim.state and self.random.random() < 0.5:
                other.turn += 1

    def local_batches(self, commit: Commit, state: State) -> list[int]:
        """Each generation has its own batch, so that a wrong lineage shows in the data."""
        batch = 3 + commit.generation * 7 % 9
        batch = min(batch, self.length - state.position)
        ranks = len(commit.members)
        return [batch // ranks + (rank < batch % ranks) for rank in range(ranks)]

    def after(self, state: State, commit: Commit, local_batches: list[int]) -> State:
        position = state.position + sum(local_batches)
        digest = hash((state.digest, state.step, commit.members, *local_batches))
        if position == self.length:
            return State(state.step + 1, state.epoch + 1, 0, digest)
        return State(state.step + 1, state.epoch, position, digest)

    def stepped(self, stub: Stub, commit: Commit, local_batches: list[int]) -> None:
        after = stub.state
        assert after is not None
        begin = after.epoch if after.position else after.epoch - 1
        row = {
            "kind": "step",
            "attempt": commit.attempt,
            "generation": commit.generation,
            "step": after.step - 1,
            "epoch": begin,
            "start": (after.position or self.length) - sum(local_batches),
            "local_batches": local_batches,
        }
        stub.rows = [*stub.rows, row][-ROWS_WITH_STATE:]
        self.send(stub, ("row", row))
        if self.random.random() < 0.1:
            self.checkpoints.append((commit.attempt, commit.generation, after))

    def source(self, commit: Commit) -> int:
        return commit.members[0] if commit.source is None else commit.source

    def transfer(self, commit: Commit) -> None:
        """The source serves its receivers one by one, and goes on when all have the state."""
        source = self.stubs[self.source(commit)]
        serving = source.alive and source.mode == "serving" and source.commit is commit
        if not serving or commit.store != self.store:
            return
        if source.state is None or not source.follower.complete:
            self.complain(f"the incomplete {source.member} is a source")
        for member in commit.receivers:
            stub = self.stubs[member]
            key = (commit.generation, member)
            if stub.commit is commit and stub.alive and key not in self.transferred:
                self.transferred.add(key)
                self.at(self.random.uniform(0.05, 1.0), self.hand_over, source, source.turn, stub)

    def hand_over(self, source: Stub, turn: int, stub: Stub) -> None:
        if not (stub.alive and stub.mode == "receiving" and stub.commit is source.commit):
            return
        if not (source.alive and source.turn == turn):
            return
        assert source.state is not None
        assert source.commit is not None
        stub.received(source.state, list(source.rows))
        self.served.add((source.commit.generation, stub.member))
        if all((source.commit.generation, m) in self.served for m in source.commit.receivers):
            source.go_to_boundary()
