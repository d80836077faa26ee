"""The supervisor's hosts on other nodes: workers are ranks under agents there."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from staves.engines.agents._addresses import address_on
from staves.engines.agents._agent import BEAT
from staves.engines.agents._door import Door
from staves.engines.agents._errands import Errands
from staves.engines.agents._held import HeldAgent, PutOff, RemoteWorker, Wish
from staves.engines.agents._link import Link
from staves.engines.agents._nodes import AgentOrder, AgentState, Nodes
from staves.engines.local._devices import to_document
from staves.engines.local._hosts import Hosts, Supervision
from staves.hardware import Device

SILENCE = 10.0
"""Seconds without a sign of life after which an agent is lost to its supervisor, and the supervisor
to its agent."""
_LOOK = 1.0  # seconds between two questions for an agent's state
_LONGEST_PAUSE = 15.0  # seconds between two tries to have an agent on a node
_ENDS_WITHIN = 15.0  # seconds for agents to go and for the cluster to take their devices back


class AgentHosts(Hosts):
    """Has agents started as devices are wanted, and ended as they fall free.

    Args:
        supervision: the supervisor's.
        nodes: the cluster.
        name: of the attempt; agents are named after it.
        interface: which of this machine's addresses, and of each node's, is used; the cluster's
            own choice where None.
        silence: seconds.

    Raises:
        InputError: this machine has no such interface.
    """

    def __init__(
        self,
        supervision: Supervision,
        nodes: Nodes,
        *,
        name: str,
        interface: str | None = None,
        silence: float = SILENCE,
    ) -> None:
        self._of, self._nodes, self._name = supervision, nodes, name
        self._interface, self._silence = interface, silence
        self.address = nodes.address() if interface is None else address_on(interface)
        self._door = Door(
            self.address,
            supervision.loop,
            expects=self._expects,
            welcome=self._welcome,
            say=supervision.say,
        )
        self._errands = Errands(supervision.loop)
        self._agents: dict[str, HeldAgent] = {}
        self._put_off: list[PutOff] = []
        self._missing: set[str] = set()
        self._called_off: set[int] = set()  # members of whom that is yet to be said
        self._ending: dict[
            str, tuple[float, Link | None]
        ] = {}  # not known to have gone; since when
        self._wanted: dict[str, Device] = {}
        self._per_device = True
        self._count = 0
        self._tries: dict[str, int] = {}  # by node, since an agent has come last
        self._ceased = False
        self._beaten = self._looked = 0.0

    def environ(self, environ: Mapping[str, str], devices: Sequence[Device]) -> dict[str, str]:
        """Return `environ` with what is alike on all nodes; each agent adds its own."""
        shared = dict(environ)
        if devices and all(device.type.emulated for device in devices):
            shared.setdefault("OMP_NUM_THREADS", "1")
        shared["PYTHONUNBUFFERED"] = "1"
        return shared

    @property
    def pending(self) -> str:
        """Why workers that are awaited have not started, in words; empty where none are."""
        waits = [agent.waiting_for() for agent in self._agents.values() if agent.wishes]
        return "; ".join([*waits, *(each.reason for each in self._put_off if each.wishes)])

    @property
    def awaited(self) -> Collection[int]:
        """Members that have been neither started nor said never to start."""
        waiting: list[HeldAgent | PutOff] = [*self._agents.values(), *self._put_off]
        return [*self._called_off, *(member for each in waiting for member in each.wishes)]

    @property
    def missing(self) -> Collection[str]:
        """Devices that the cluster took, or did not give, and has not given since."""
        return self._missing

    @property
    def leaving(self) -> Collection[str]:
        """Devices whose agent the cluster is going to end soon."""
        leaving = [agent for agent in self._agents.values() if agent.leaving]
        return [device for agent in leaving for device in agent.devices]

    def want(self, devices: Sequence[Device], *, per_device: bool = True) -> None:
        """Have agents started for these devices; end those whose devices nobody wants or uses."""
        self._per_device = per_device
        self._wanted = {device.name: device for device in devices}
        for device in devices:
            if self._agent_of(device) is None:
                self._order(device)
        self._give_back()

    def start(self, member: int, device: Device, *, rank: int, environ: Mapping[str, str]) -> None:
        """Start the worker of that member, as soon as its agent is there."""
        self._wish(Wish(member, device, rank, dict(environ), time.monotonic()))

    def cancel(self, member: int) -> bool:
        """Call a start off where the agent has not connected yet."""
        waiting: list[HeldAgent | PutOff] = [*self._agents.values(), *self._put_off]
        for each in waiting:
            if each.wishes.pop(member, None) is not None:
                self._called_off.add(member)
                self._of.loop.post(partial(self._say_called_off, member))
                return True
        return False

    def _say_called_off(self, member: int) -> None:
        self._called_off.discard(member)
        self._of.unstarted(member, "")

    def tick(self, now: float) -> None:
        """Exchange signs of life; ask after agents that do not come."""
        self._door.tick(now)
        for agent in list(self._agents.values()):
            link = agent.link
            if link is not None and now - link.heard >= self._silence:
                link.receive()  # where it was this process that stood still
                if now - link.heard >= self._silence:
                    link.lose(f"nothing was heard of it for {self._silence:g} s")
        if now - self._beaten >= BEAT:
            self._beaten = now
            for agent in self._agents.values():
                if agent.link is not None:
                    agent.link.send("beat")
        if now - self._looked >= _LOOK and not self._errands.open:
            self._looked = now
            for agent in self._agents.values():
                if agent.link is None and agent.ordered:
                    ask = partial(self._nodes.agent_state, agent.order.agent)
                    self._errands.run(ask, partial(self._seen, agent.order.agent))
        for since, link in list(self._ending.values()):
            if link is not None and now - since >= self._silence:
                link.lose("it did not end")
        self._try_again(now)
        self._give_back()

    def cease(self) -> None:
        """Start nothing more; agents that are still pending are called off."""
        self._ceased = True
        self._put_off.clear()
        for agent in list(self._agents.values()):
            agent.wishes.clear()
            if agent.link is None:
                self._end(agent)

    def close(self) -> None:
        """End all agents, and with them what is left of their ranks."""
        self.cease()
        for agent in list(self._agents.values()):
            self._end(agent)
        end = time.monotonic() + _ENDS_WITHIN
        while (self._ending or self._errands.open) and time.monotonic() < end:
            self._of.loop.serve(0.1)
        if self._ending:
            self._of.say(f"not known to have ended: {', '.join(sorted(self._ending))}")
        self._errands.run(self._nodes.close)
        while self._errands.open and time.monotonic() < end:
            self._of.loop.serve(0.1)
        self._door.close()

    # -- agents come and go

    def _agent_of(self, device: Device) -> HeldAgent | None:
        for agent in self._agents.values():
            if device.name in agent.devices:
                return agent
        if self._nodes.holds == "node":
            for agent in self._agents.values():
                if agent.order.node == device.node:
                    agent.devices.add(device.name)
                    return agent
        return None

    def _order(self, device: Device) -> HeldAgent:
        """Have an agent started for this device, and for those that go with it."""
        free = [
            other
            for other in self._wanted.values()
            if other.node == device.node and self._agent_of(other) is None
        ]
        together = self._nodes.holds != "device" or not self._per_device
        devices = tuple(free) if together and device in free else (device,)
        self._count += 1
        order = AgentOrder(
            agent=f"{self._name}-{self._count}",
            node=device.node,
            devices=devices,
            address=self._door.address,
            token=self._door.token,
            interface=self._interface,
        )
        agent = self._agents[order.agent] = HeldAgent(order)
        self._errands.run(
            partial(self._nodes.start_agent, order),
            lambda _: agent.was_ordered(),
            lambda reason: self._failed(agent, reason),
        )
        return agent

    def _expects(self, name: str) -> bool:
        agent = self._agents.get(name)
        return agent is not None and agent.link is None

    def _welcome(self, name: str, link: Link, proof: str, hello: dict[str, Any]) -> None:
        agent = self._agents[name]
        agent.link = link
        self._tries.pop(agent.order.node, None)
        link.take = partial(self._take, agent)
        link.on_lost = partial(self._lost, agent)
        node = agent.order.node
        link.send(
            "begin",
            proof=proof,
            command=list(self._of.command),
            environ=dict(self._of.environ),
            workdir=str(self._of.workdir),
            devices=[to_document(device) for device in agent.order.devices],
            beside=sum(device.node == node for device in self._wanted.values()),
            per_device=self._per_device,
            silence=self._silence,
        )
        self._grant(agent)

    def _seen(self, name: str, state: AgentState) -> None:
        """The cluster has told how an agent stands that has not connected."""
        agent = self._agents.get(name)
        if agent is None or agent.link is not None:
            return
        if problem := agent.seen(state, self._nodes):
            self._failed(agent, problem)

    def _failed(self, agent: HeldAgent, reason: str) -> None:
        """An agent will not come: another is tried, for as long as that may take in all."""
        if self._agents.get(agent.order.agent) is not agent:
            return
        self._end(agent)
        tries = self._tries[agent.order.node] = self._tries.get(agent.order.node, 0) + 1
        wishes, agent.wishes = agent.wishes, {}
        self._missing |= {wish.device.name for wish in wishes.values()}
        due = time.monotonic() + min(2.0**tries, _LONGEST_PAUSE)
        self._put_off.append(PutOff(wishes, due, f"{agent.order.node}: no agent: {reason}"))

    def _try_again(self, now: float) -> None:
        for each in [each for each in self._put_off if now >= each.due]:
            self._put_off.remove(each)
            for wish in each.wishes.values():
                if now - wish.since >= self._nodes.pending_within:
                    self._of.unstarted(wish.member, each.reason)
                else:
                    self._wish(wish)

    def _lost(self, agent: HeldAgent, reason: str) -> None:
        """An agent has gone, and with it its ranks, or it is out of reach and will end them."""
        self._end(agent)
        if not self._ceased:
            self._of.say(f"{agent.order.node}: the agent {agent.order.agent} was lost: {reason}")
        workers, agent.workers = agent.workers, {}
        self._missing |= {worker.device.name for worker in workers.values()}
        for worker in workers.values():
            worker.gone_with = f"the agent on {agent.order.node}: {reason}"
            self._of.ended(worker, -signal.SIGKILL)

    def _end(self, agent: HeldAgent) -> None:
        """End an agent, and have the cluster take its devices back."""
        name = agent.order.agent
        if self._agents.pop(name, None) is None:
            return
        self._ending[name] = time.monotonic(), agent.link
        if agent.link is not None and not agent.link.closed:
            # Its line ends when all that it has started has.
            agent.link.take = lambda header, data: None
            agent.link.on_lost = lambda reason: self._take_back(name)
            agent.link.send("end")
        else:
            self._take_back(name)

    def _take_back(self, name: str) -> None:
        """Have the cluster take an agent's devices back."""
        self._errands.run(
            partial(self._nodes.end_agent, name),
            lambda _: self._ending.pop(name, None),
            lambda reason: self._of.say(f"{name}: it could not be ended: {reason}"),
        )

    def _give_back(self) -> None:
        for agent in list(self._agents.values()):
            idle = not agent.workers and not agent.wishes
            if idle and not agent.devices & self._wanted.keys():
                self._end(agent)

    # -- ranks

    def _wish(self, wish: Wish) -> None:
        agent = self._agent_of(wish.device) or self._order(wish.device)
        agent.wishes[wish.member] = wish
        self._grant(agent)

    def _grant(self, agent: HeldAgent) -> None:
        """Start what is wished for, where the agent is there."""
        if agent.link is None:
            return
        wishes, agent.wishes = agent.wishes, {}
        self._missing -= {wish.device.name for wish in wishes.values()}
        for wish in wishes.values():
            worker = agent.workers[wish.member] = RemoteWorker(wish, agent.link)
            agent.link.send(
                "start",
                member=wish.member,
                device=to_document(wish.device),
                rank=wish.rank,
                environ=wish.environ,
            )
            self._of.started(worker)

    def _take(self, agent: HeldAgent, header: dict[str, Any], data: bytes) -> None:
        """Take in what an agent says."""
        kind = header["kind"]
        if kind == "warning":
            self._of.say(f"{agent.order.node}: {header['text']}")
        elif kind == "leaving" and not agent.leaving:
            agent.leaving = True
            self._of.say(f"{agent.order.node}: the time of {agent.order.agent} is up soon")
        worker = agent.workers.get(header.get("member", -1))
        if worker is None:
            return
        if kind == "said":
            self._of.said(worker, data)
        elif kind == "printed":
            self._of.printed(worker, header["stderr"], data)
        elif kind == "ended":
            del agent.workers[worker.member]
            self._of.ended(worker, header["status"])
        elif kind == "unborn":
            del agent.workers[worker.member]
            worker.gone_with = header["reason"]
            self._of.ended(worker, 127)
