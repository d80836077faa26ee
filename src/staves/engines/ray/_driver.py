"""The driver: what it is asked on a line, it does with Ray, in a process of its own.

Ray ends the process of a driver that loses its cluster, and changes its signals, its threads and
what it prints. So neither the controller nor a supervisor is one.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from staves.engines.agents._addresses import split
from staves.engines.ray import _holder
from staves.engines.ray._discovery import why_pending

NAMESPACE = "staves"
_REACHED_WITHIN = 5.0  # seconds
_GOES_WITHIN = 1.0  # seconds, of itself
_ENDS_WITHIN = 8.0  # seconds, told
_TOLD = (
    "NodeID",
    "NodeName",
    "NodeManagerHostname",
    "NodeManagerAddress",
    "Resources",
    "Labels",
)
_FRESH = 1.0  # seconds for which what is free is taken to be as it was


@dataclass(frozen=True, slots=True)
class _Held:
    """An agent's actor, its node, and what it claims."""

    actor: Any
    here: Any
    run: Any
    node: str
    claim: Mapping[str, float]


class Driver:
    """One driver of a Ray cluster; all that it has started ends with it.

    Args:
        address: of the cluster, as `ray.init` takes it.
    """

    def __init__(self, address: str) -> None:
        if address != "auto":  # Ray would try for long
            socket.create_connection(split(address), timeout=_REACHED_WITHIN).close()
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            configure_logging=False,
            logging_level="ERROR",
        )
        ray.cloudpickle.register_pickle_by_value(_holder)
        self._actor = ray.remote(_holder.Holder)
        self._held: dict[str, _Held] = {}
        self._looked = -_FRESH
        self._has: dict[str, dict[str, float]] = {}
        self._free: dict[str, dict[str, float]] = {}

    def about(self) -> dict[str, str]:
        """Return the cluster's address, and this machine's in it."""
        context = ray.get_runtime_context()
        return {"address": context.gcs_address, "host": ray.util.get_node_ip_address()}

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that are alive, as Ray has them."""
        return [{key: n.get(key) for key in _TOLD} for n in ray.nodes() if n["Alive"]]

    def start(
        self,
        agent: str,
        node: str,
        claim: dict[str, float],
        command: list[str],
        environ: dict[str, str],
    ) -> None:
        """Ask for an actor on a node that runs an agent."""
        actor = self._actor.options(
            name=f"{agent}@{ray.get_runtime_context().get_job_id()}",
            num_cpus=0,
            num_gpus=claim.get("GPU", 0),
            resources={name: amount for name, amount in claim.items() if name != "GPU"},
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            max_concurrency=2,
            max_restarts=0,
        ).remote()
        here, run = actor.here.remote(), actor.run.remote(command, environ)
        self._held[agent] = _Held(actor, here, run, node, claim)

    def state(self, agent: str) -> tuple[str, str]:
        """Return an agent's phase, and why."""
        held = self._held.get(agent)
        if held is None:
            return "ended", "it was not started by this driver"
        if _is_ready(held.run):
            return "ended", _outcome(held.run)
        if _is_ready(held.here):
            problem = _problem(held.here)
            return ("ended", problem) if problem else ("running", "")
        self._look()
        free, own = self._free.get(held.node, {}), dict[str, float]()
        for each in self._held.values():
            if each.node == held.node:
                for name, amount in each.claim.items():
                    own[name] = own.get(name, 0.0) + amount
        return "pending", why_pending(held.claim, self._has.get(held.node), free, own)

    def end(self, agent: str) -> None:
        """End an agent and its actor; one whose node does not answer is seen to in a thread."""
        held = self._held.pop(agent, None)
        if held is None:
            return
        if not _is_ready(held.here) or _is_ready(held.run, _GOES_WITHIN):
            ray.kill(held.actor)
            return
        threading.Thread(target=_end, args=(held,), daemon=True).start()

    def close(self) -> None:
        """Let go of the cluster, and of all that was started."""
        ray.shutdown()

    def _look(self) -> None:
        """See what nodes have and what of that is free, unless that was seen just now."""
        if time.monotonic() - self._looked >= _FRESH:
            self._has = {node["NodeID"]: node["Resources"] for node in self.nodes()}
            self._free = ray._private.state.available_resources_per_node()
            self._looked = time.monotonic()


def _end(held: _Held) -> None:
    try:
        ray.get(held.actor.end.remote(), timeout=_ENDS_WITHIN)
    except ray.exceptions.RayError as error:
        print(f"{held.node}: {_words(error)}", flush=True)
    ray.kill(held.actor)


def _is_ready(reference: Any, timeout: float = 0.0) -> bool:
    ready, _ = ray.wait([reference], timeout=timeout, fetch_local=True)
    return bool(ready)


def _problem(reference: Any) -> str:
    """Return why a call that has come back has failed; nothing where it has not."""
    try:
        ray.get(reference)
    except ray.exceptions.RayError as error:
        return _words(error)
    return ""


def _outcome(reference: Any) -> str:
    try:
        return str(ray.get(reference))
    except ray.exceptions.RayError as error:
        return _words(error)


def _words(error: Exception) -> str:
    """Return the line of Ray's many that says what happened."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return f"{type(error.cause).__name__}: {error.cause}"
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and ":" not in line[:20]]
    return f"Ray: {(telling or lines)[0]}"
