"""Engines for several nodes: the supervisor of an attempt has agents start its ranks there."""

from staves.engines.agents._declared import cluster_with
from staves.engines.agents._engine import AgentEngine
from staves.engines.agents._nodes import AGENT_TOKEN, AgentOrder, AgentState, Nodes
from staves.engines.agents._subprocesses import SubprocessNodes

__all__ = [
    "AGENT_TOKEN",
    "AgentEngine",
    "AgentOrder",
    "AgentState",
    "Nodes",
    "SubprocessNodes",
    "cluster_with",
]
