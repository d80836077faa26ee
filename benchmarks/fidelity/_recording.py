"""A controller that keeps what its policy saw and answered, and what its engine was told."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from staves.engines._base import Launch
from staves.engines.local import LocalEngine
from staves.hardware import Cluster, Device, read_cluster
from staves.scheduling import Decision, Policy, View, policy
from staves.service import Service, Store
from staves.service._controller import Controller


def recording(inner: Policy, file: BinaryIO) -> Policy:
    """Return the policy, with its views and decisions appended to a file; nothing else changes."""

    class Recording(type(inner)):  # type: ignore[misc]
        def decide(self, view: View) -> Decision:
            seen = pickle.dumps(view)  # before deciding: rates remember what they were asked
            decision = inner.decide(view)
            pickle.dump((seen, decision), file)
            file.flush()
            return decision

    return Recording()


class RecordedEngine(LocalEngine):
    """The local engine; each order that is new to it becomes a line of JSON."""

    def __init__(self, home: Path, cluster: Cluster) -> None:
        super().__init__(home, cluster)
        self._orders = orders_file(home)
        self._known: set[tuple[Any, ...]] = set()

    def launch(self, launch: Launch) -> None:
        """Start an attempt."""
        super().launch(launch)
        names = [device.name for device in launch.devices]
        self._keep("launch", launch.job, launch.attempt, devices=names)

    def resize(self, job: str, attempt: int, devices: Sequence[Device], request: int) -> None:
        """Change an attempt's devices."""
        super().resize(job, attempt, devices, request)
        names = [device.name for device in devices]
        self._keep("resize", job, attempt, request, devices=names)

    def stop(self, job: str, attempt: int, *, save: bool, grace: float) -> None:
        """End an attempt."""
        super().stop(job, attempt, save=save, grace=grace)
        self._keep("stop", job, attempt, save=save)

    def _keep(self, kind: str, job: str, attempt: int, request: int = 0, **told: Any) -> None:
        key = kind, job, attempt, request
        if key in self._known:
            return
        self._known.add(key)
        order = {"time": time.time(), "kind": kind, "job": job, "attempt": attempt}
        with self._orders.open("a") as file:
            file.write(json.dumps(order | {"request": request} | told) + "\n")


def recorded(file: Path) -> Iterator[tuple[bytes, Decision]]:
    """Yield what a recording policy has kept: pickled views, and decisions.

    Reading it runs what it holds: only a file of one's own may be read.
    """
    with file.open("rb") as source:
        while source.peek(1):
            yield pickle.load(source)


def decisions_file(home: Path) -> Path:
    """Return where the controller of a home keeps its policy's record."""
    return home / "service" / "decisions.pickle"


def orders_file(home: Path) -> Path:
    """Return where the controller of a home keeps what its engine was told."""
    return home / "service" / "orders.jsonl"


def build_service(
    home: Path, cluster: Path | None, engine: str, policy_name: str, options: Mapping[str, str]
) -> Service:
    """Return a controller as `staves up` makes it, but for its records."""
    if cluster is None or engine != "local":
        raise ValueError("a cluster file, and the local engine")
    file = decisions_file(home).open("ab")
    return Controller(
        home,
        RecordedEngine(home, read_cluster(cluster)),
        recording(policy(policy_name), file),
        Store(home / "service"),
    )
