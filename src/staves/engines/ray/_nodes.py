"""The nodes of a Ray cluster, and how agents get onto them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from staves.engines.agents import AgentOrder, AgentState, Nodes
from staves.engines.ray._discovery import RayNode, claim_of, cluster_of, names
from staves.engines.ray._line import Line
from staves.errors import InputError, StavesError, quoted
from staves.hardware import Cluster, parse_cluster

_PASSED_ON = ("STAVES_HOME", "STAVES_SERVICE")
"""Of this process's environment, to agents: the rest of theirs is that of Ray on their node."""


class RayNodes(Nodes):
    """Runs each agent in an actor that is bound to its node and holds its devices.

    Args:
        address: of the cluster, as `ray.init` takes it: `auto`, or HOST:PORT of its head.
        cluster: as in a cluster file: device types that are not known or are emulated, and links of
            nodes. Which nodes there are, Ray tells.
        host: this machine's address in the cluster; None: Ray's own choice.
        pending_within: seconds, as of any nodes.

    Raises:
        InputError: the address is none of those, or the cluster is malformed.
    """

    name: ClassVar[str] = "ray"
    holds = "device"

    def __init__(
        self,
        *,
        address: str = "auto",
        cluster: Mapping[str, Any] | None = None,
        host: str | None = None,
        pending_within: float = 60.0,
    ) -> None:
        if "://" in address:
            raise InputError(
                f"--address: {quoted(address)} is that of a Ray client",
                hint="name the head, HOST:PORT, or auto; run on a machine of the cluster",
            )
        if address != "auto" and not _is_address(address):
            raise InputError(
                f"--address: {quoted(address)} is no address of a Ray cluster",
                hint="auto, or HOST:PORT of its head, like 10.0.0.1:6379",
            )
        self._address, self._host = address, host
        self._file = None if cluster is None else parse_cluster(json.dumps(cluster))
        self._document = cluster
        self.pending_within = pending_within
        self._line: Line | None = None
        self._names: dict[str, str] = {}
        self._lines = 0
        self._started: dict[str, int] = {}  # agent, and the number of the line that it was asked on

    def options(self) -> Mapping[str, Any]:
        """Return the keywords that make another one like this, on the same cluster."""
        return {
            "address": self._address,
            "cluster": self._document,
            "host": self._host,
            "pending_within": self.pending_within,
        }

    def discover(self) -> Cluster:
        """Return the nodes that Ray has, and those of their resources that are devices."""
        nodes = self._nodes()
        return cluster_of(nodes, self._names, self._file)

    def start_agent(self, order: AgentOrder) -> None:
        """Ask for an actor on that very node that holds the devices and runs the agent."""
        node = next((n for n in self._nodes() if self._names[n.id] == order.node), None)
        if node is None:
            raise StavesError(f"{order.node} is not in the Ray cluster")
        declared = {} if self._file is None else self._file.types
        try:
            claim = claim_of(node, [device.type.name for device in order.devices], declared)
        except InputError as error:
            raise StavesError(f"{order.node}: {error}") from None
        line = self._connected()
        self._started[order.agent] = self._lines  # what is not answered in time may be done later
        line.call(
            "start",
            agent=order.agent,
            node=node.id,
            claim=claim,
            command=order.command(),
            environ=_environ() | order.environ,
        )

    def agent_state(self, agent: str) -> AgentState:
        """Return how its actor stands."""
        line = self._line
        if line is None or not line.alive or self._started.get(agent) != self._lines:
            return AgentState("ended", "its Ray driver has ended, and its actor with it")
        phase, reason = line.call("state", agent=agent)
        return AgentState(phase, reason)

    def end_agent(self, agent: str) -> None:
        """End its actor, unless that has gone with its driver."""
        number, line = self._started.pop(agent, None), self._line
        if line is not None and line.alive and number == self._lines:
            line.call("end", agent=agent)

    def address(self) -> str:
        """Return this machine's address in the cluster."""
        if self._host is None:
            self._connected()
        assert self._host is not None
        return self._host

    def close(self) -> None:
        """Let go of the cluster."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _nodes(self) -> list[RayNode]:
        """Return the nodes that are alive, all of which have names from now on."""
        nodes = [RayNode.of(told) for told in self._connected().call("nodes")]
        self._names = names(nodes, self._names)
        return nodes

    def _connected(self) -> Line:
        """Return the line; a new one where its driver has ended."""
        if self._line is not None and not self._line.alive:
            self.close()
        if self._line is None:
            self._line = Line(self._address)
            self._lines += 1
            # Where the cluster was found once, it is looked for again, by whoever comes after.
            self._address, self._host = self._line.address, self._host or self._line.host
        return self._line


def _environ() -> dict[str, str]:
    """Return what agents get of this process's environment."""
    found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = [str(Path(path).absolute()) for path in paths if path]
    return found | ({"PYTHONPATH": os.pathsep.join(absolute)} if absolute else {})


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 2**16
