"""What the supervisor knows of one agent, and of the ranks under it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from staves.engines.agents._link import Link
from staves.engines.agents._nodes import AgentOrder, AgentState, Nodes
from staves.engines.local._worker import Worker
from staves.hardware import Device


@dataclass(frozen=True, slots=True)
class Wish:
    """A worker that is to be started; `since`: seconds of the monotonic clock."""

    member: int
    device: Device
    rank: int
    environ: dict[str, str]
    since: float


@dataclass(frozen=True, slots=True)
class PutOff:
    """Wishes whose agent has not come, and when another is to be tried."""

    wishes: dict[int, Wish]
    due: float
    reason: str


class RemoteWorker(Worker):
    """A worker under an agent."""

    def __init__(self, wish: Wish, link: Link) -> None:
        super().__init__(wish.member, wish.device, rank=wish.rank)
        self._link = link

    def send(self, data: bytes) -> None:
        """Put bytes on its line."""
        self._link.send("line", data, member=self.member)

    def signal(self, number: int) -> None:
        """Send a signal to it and to all that it started."""
        self._link.send("signal", member=self.member, number=number)


class HeldAgent:
    """One agent, from its order to its end."""

    def __init__(self, order: AgentOrder) -> None:
        self.order = order
        self.devices = {device.name for device in order.devices}
        self.link: Link | None = None
        self.workers: dict[int, RemoteWorker] = {}
        self.wishes: dict[int, Wish] = {}
        self.ordered = False
        """Whether the cluster has taken the order."""
        self.leaving = False
        """Whether the cluster is going to end it soon."""
        self._state = AgentState("pending")
        self._since = time.monotonic()

    def was_ordered(self) -> None:
        """The cluster has taken the order."""
        self.ordered, self._since = True, time.monotonic()

    def seen(self, state: AgentState, nodes: Nodes) -> str:
        """Take in how it stands; return why it is given up, or nothing."""
        now = time.monotonic()
        if state.phase != self._state.phase:
            self._since = now
        self._state = state
        if state.phase == "ended":
            return f"it has ended{': ' if state.reason else ''}{state.reason}"
        if state.phase == "pending" and now - self._since >= nodes.pending_within:
            why = f": {state.reason}" if state.reason else ""
            return f"its place was not to be had within {nodes.pending_within:g} s{why}"
        if state.phase == "running" and now - self._since >= nodes.connect_within:
            within = f"{nodes.connect_within:g} s"
            return f"it runs, and has not reached {self.order.address} within {within}"
        return ""

    def waiting_for(self) -> str:
        """Say in words what its wishes wait for."""
        if self._state.phase == "running":
            return f"{self.order.node}: its agent has yet to connect"
        return f"{self.order.node}: {self._state.reason or 'its agent is being started'}"
