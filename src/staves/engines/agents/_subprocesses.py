"""Several hosts on one machine: agents are processes here, perhaps in namespaces of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from staves.engines.agents._nodes import AgentOrder, AgentState, Nodes
from staves.errors import StavesError
from staves.hardware import Cluster, parse_cluster, to_document

_ENDS_WITHIN = 5.0  # seconds: of itself, when its line has ended, and then when it is told


class SubprocessNodes(Nodes):
    """Nodes that this machine plays, to show and to test what several of them do.

    Args:
        cluster: as in a cluster file.
        prefixes: by node, what stands before an agent's command line: `ip netns exec NAME`.
        host: the address of this machine at which all agents reach it.
        folder: where agents' own words go, `AGENT.log`; and a file `NODE.down` there takes a node
            away: it is not discovered, and no agent can be started on it.
        holds: as of any nodes.
        pending_within: seconds, as of any nodes.
    """

    name: ClassVar[str] = "subprocess"

    def __init__(
        self,
        *,
        cluster: Mapping[str, Any],
        folder: str,
        prefixes: Mapping[str, Sequence[str]] | None = None,
        host: str = "127.0.0.1",
        holds: Literal["device", "group", "node"] = "node",
        pending_within: float = 60.0,
    ) -> None:
        self._cluster = parse_cluster(json.dumps(cluster))
        self._folder, self._host = Path(folder), host
        self._prefixes = {node: list(words) for node, words in (prefixes or {}).items()}
        self.holds, self.pending_within = holds, pending_within
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    def options(self) -> Mapping[str, Any]:
        """Return the keywords that make another one like this."""
        return {
            "cluster": to_document(self._cluster),
            "folder": str(self._folder),
            "prefixes": self._prefixes,
            "host": self._host,
            "holds": self.holds,
            "pending_within": self.pending_within,
        }

    def discover(self) -> Cluster:
        """Return the nodes that are not down."""
        up = tuple(node for node in self._cluster.nodes if not self._is_down(node.name))
        return Cluster(self._cluster.types, up, self._cluster.warnings)

    def start_agent(self, order: AgentOrder) -> None:
        """Start a process, which ends when it hears nothing of this one any more."""
        self._cluster.node(order.node)
        if self._is_down(order.node):
            raise StavesError(f"{order.node} is down")
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{order.agent}.log").open("ab") as log:
            # Nothing of ours runs in the child before exec: a fork beside other threads may hang.
            self._agents[order.agent] = subprocess.Popen(
                [*self._prefixes.get(order.node, ()), *order.command()],
                env={**os.environ, **order.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def agent_state(self, agent: str) -> AgentState:
        """Return how it stands."""
        process = self._agents.get(agent)
        if process is None:
            return AgentState("ended", "it was never started")
        status = process.poll()
        if status is None:
            return AgentState("running")
        return AgentState("ended", f"status {status}; see {self._folder / agent}.log")

    def end_agent(self, agent: str) -> None:
        """Wait for it to end by itself, as it does at once when told; then end it by force."""
        process = self._agents.pop(agent, None)
        if process is not None:
            for step in (process.terminate, process.kill):
                try:
                    process.wait(_ENDS_WITHIN)
                    return
                except subprocess.TimeoutExpired:
                    step()
            process.wait()

    def address(self) -> str:
        """Return the address of this machine at which all agents reach it."""
        return self._host

    def _is_down(self, node: str) -> bool:
        return (self._folder / f"{node}.down").exists()
