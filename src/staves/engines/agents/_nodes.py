"""What a kind of cluster has to tell and to do, for an engine to be built on it."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from staves.engines.agents._addresses import own_address
from staves.hardware import Cluster, Device

AGENT_TOKEN = "STAVES_AGENT_TOKEN"
"""In the environment of an agent: the secret of its attempt."""


@dataclass(frozen=True, slots=True)
class AgentOrder:
    """An agent that is wanted on a node.

    Args:
        agent: its id: letters, digits, '.', '_' and '-'; never used again.
        node: the name of the node, as `Nodes.discover` told it.
        devices: those that it is to hold for the job, of that node.
        address: where the supervisor listens: `10.0.0.1:4711`, `[fd00::1]:4711`.
        token: the attempt's secret; it must not stand on a command line.
        interface: which of the node's addresses the ranks use among each other, as of
            `STAVES_INTERFACE`; None: the one from which the node reaches the supervisor.
    """

    agent: str
    node: str
    devices: tuple[Device, ...]
    address: str
    token: str = field(repr=False)
    interface: str | None = None

    def command(self, python: str = sys.executable) -> list[str]:
        """Return the command line of the agent; the environment must hold `environ` as well."""
        words = [python, "-P", "-m", "staves.engines.agents", "--supervisor", self.address]
        words += ["--node", self.node, "--agent", self.agent]
        return words if self.interface is None else [*words, "--interface", self.interface]

    @property
    def environ(self) -> dict[str, str]:
        """The secret part, for the agent's environment."""
        return {AGENT_TOKEN: self.token}


@dataclass(frozen=True, slots=True)
class AgentState:
    """How an agent stands, as its cluster tells it.

    Args:
        phase: pending: not started yet. running: started. ended: it will not run, or not any more.
        reason: in words, for people: why it is pending or has ended.
    """

    phase: Literal["pending", "running", "ended"]
    reason: str = ""


class Nodes(ABC):
    """The nodes of one kind of cluster, and how agents get onto them.

    Made by keywords that are plain JSON values (`options`), in the controller, which only calls
    `discover`, and again in each supervisor. Calls may take seconds: they come one at a time, not
    from the main thread, and in a supervisor all from one thread, which lives as long as it.
    """

    name: ClassVar[str]
    """Of the engine, as `staves up --engine` has it."""
    holds: Literal["device", "group", "node"] = "device"
    """What one agent is for. device: one device, which is given back as soon as its worker has
    gone. group: the devices of a node that were asked for together, given back together. node: all
    that the job has of a node, where nothing needs to be claimed."""
    pending_within: float = 60.0
    """Seconds that an agent may be pending until its devices count as not to be had."""
    connect_within: float = 60.0
    """Seconds from its start until an agent must have connected."""

    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """Return the keywords that make another one like this: `type(nodes)(**nodes.options())`."""

    @abstractmethod
    def discover(self) -> Cluster:
        """Return the nodes that are there now, and can be used, with their devices.

        Raises:
            StavesError: the cluster does not answer.
        """

    @abstractmethod
    def start_agent(self, order: AgentOrder) -> None:
        """Have `order.command()` run on the node, with the devices its own.

        Returns as soon as that is asked for; whether it runs, `agent_state` tells.

        Raises:
            StavesError: it cannot be asked for.
        """

    @abstractmethod
    def agent_state(self, agent: str) -> AgentState:
        """Return how an agent stands that was started here."""

    @abstractmethod
    def end_agent(self, agent: str) -> None:
        """End an agent that was started here, by force where need be, and give back its devices.

        Also where it is pending, or has ended; may be repeated.
        """

    def address(self) -> str:
        """Return the address of this machine at which its nodes reach it."""
        return own_address()

    def close(self) -> None:  # noqa: B027  # most have nothing to release
        """Let go of the cluster; all agents have been ended."""
