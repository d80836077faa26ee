"""The same world with hypothesis at the wheel: it picks the faults, and shrinks what breaks."""

from __future__ import annotations

import heapq

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.membership.world import World


class Membership(RuleBasedStateMachine):
    world: World

    @initialize(seed=st.integers(0, 10_000))
    def begin(self, seed: int) -> None:
        self.world = world = World(seed, gentle=True)
        world.chaos_rate = world.update_errors = world.hang_rate = 0.0
        world.faults_until = float("inf")
        world.obey(world.coordinator.start(0.0))

    @property
    def running(self) -> bool:
        return not self.world.done()

    @rule(seconds=st.sampled_from((0.1, 0.5, 1.0, 3.0, 11.0)))
    def time_passes(self, seconds: float) -> None:
        world = self.world
        end = world.now + seconds
        while world.events and not world.done() and world.events[0][0] <= end:
            world.now, _, call, arguments = heapq.heappop(world.events)
            call(*arguments)
        world.now = end

    @precondition(lambda self: self.running)
    @rule(choice=st.integers(0, 100))
    def somebody_dies(self, choice: int) -> None:
        alive = [s for s in self.world.stubs.values() if s.alive]
        if alive:
            self.world.die(alive[choice % len(alive)])

    @precondition(lambda self: self.running)
    @rule(choice=st.integers(0, 100))
    def somebody_hangs(self, choice: int) -> None:
        busy = [s for s in self.world.stubs.values() if s.alive and s.mode == "computing"]
        if busy:
            stub = busy[choice % len(busy)]
            stub.hung = True
            stub.later(100.0, "computing", "enter")

    @precondition(lambda self: self.running)
    @rule(choice=st.integers(0, 100))
    def somebody_spoils_its_state(self, choice: int) -> None:
        updating = [s for s in self.world.stubs.values() if s.alive and s.mode == "updating"]
        if updating:
            self.world.update_errors = 1.0
            stub = updating[choice % len(updating)]
            stub.turn += 1
            stub.update()
            self.world.update_errors = 0.0

    @precondition(lambda self: self.running)
    @rule(picks=st.sets(st.integers(0, 100), min_size=1))
    def slots_are_wished_for(self, picks: set[int]) -> None:
        slots = self.world.all_slots
        wanted = sorted({slots[p % len(slots)] for p in picks} | set(slots[: self.world.minimum]))
        self.world.event("want", wanted)

    @precondition(lambda self: self.running)
    @rule()
    def the_store_dies(self) -> None:
        self.world.store += 1
        self.world.event("store_lost")

    def teardown(self) -> None:
        """No more faults: the job comes to its end, and nothing is lost."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.faults_until = world.now
        limit = world.now + 3000.0
        while world.events and not world.done() and world.now < limit:
            world.now, _, call, arguments = heapq.heappop(world.events)
            call(*arguments)
        if not world.done():
            world.complain("no progress")
        world.judge()


TestMembership = Membership.TestCase
TestMembership.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
