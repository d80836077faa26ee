"""A Ray cluster of several raylets on this machine, each started and ended by its pid."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from staves.engines.agents._addresses import own_address
from staves.engines.ray import RayNodes
from tests.engines.required import needed

PATIENCE = 120.0  # seconds
_STORE = 80_000_000  # bytes of a node's object store

THREE = {"left": {"emu": 2}, "middle": {"emu": 1}, "right": {"emu": 1}}
PACE = {"fixed": "1ms", "per_sample": "0ms"}
TYPES = {"emu": {"emulate": {"forward": PACE, "backward": PACE}}}
FILE = {"types": TYPES, "nodes": [{"name": "any", "devices": {"emu": 1}}]}
"""Declares the emulated type; which nodes there are, Ray tells."""


_SHARED = pytest.StashKey["RayCluster"]()


class RayCluster:
    """A head, and nodes beside it.

    Args:
        nodes: resources by the nodes' names; the head has none.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, float]]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets' paths are short
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._resources = nodes
        host = own_address()  # Ray takes none of loopback
        with socket.create_server((host, 0)) as free:
            self._port = free.getsockname()[1]
        self.address = f"{host}:{self._port}"
        try:
            self.start_head()
            for name in nodes:  # side by side they might take the same sockets
                self.start(name)
        except BaseException:
            self.close()
            raise

    def start_head(self) -> None:
        """Start the head, the first time or again, on the same port."""
        options = f"--port={self._port}", f"--temp-dir={self._folder}/r"
        self._start("head", "--head", "--include-dashboard=false", *options)
        self._wait("head")

    def start(self, name: str) -> None:
        """Start a node, the first time or again."""
        if name in self._processes:
            self._end(name)
        resources = json.dumps(self._resources[name])
        self._start(name, f"--address={self.address}", f"--resources={resources}")
        self._wait(name)

    def raylet(self, name: str) -> psutil.Process:
        """Return a node's raylet."""
        children = psutil.Process(self._processes[name].pid).children()
        (found,) = (child for child in children if child.name() == "raylet")
        return found

    def kill(self, name: str) -> None:
        """Kill a node's raylet; what belongs to it finds that out by itself."""
        self.raylet(name).kill()

    def close(self) -> None:
        """End everything, the head last."""
        for name in reversed(list(self._processes)):
            self._end(name)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, name: str, *options: str) -> None:
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *options]
        words += [f"--node-name={name}", "--num-cpus=1", "--num-gpus=0", "--disable-usage-stats"]
        words += [f"--object-store-memory={_STORE}", "--log-style=record", "--log-color=false"]
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("STAVES_", "RAY_"))}
        environ.pop("PYTHONPATH", None)  # its workers need nothing of ours
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                words,
                env=environ,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, name: str) -> None:
        log, end = self._folder / f"{name}.log", time.monotonic() + PATIENCE
        while "Ray runtime started" not in log.read_text():
            assert self._processes[name].poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        try:
            tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
        except psutil.NoSuchProcess:
            tree = []
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(tree, timeout=10)
        for each in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def shared(config: pytest.Config) -> RayCluster:
    """Return the cluster of this process's tests: four devices on three nodes beside the head."""
    needed("the package ray", importlib.util.find_spec("ray") is not None)
    if _SHARED not in config.stash:
        cluster = config.stash[_SHARED] = RayCluster(THREE)
        config.add_cleanup(cluster.close)
    return config.stash[_SHARED]


@contextlib.contextmanager
def ray_cluster(nodes: Mapping[str, Mapping[str, float]]) -> Iterator[RayCluster]:
    """Have a cluster; the test is skipped where Ray is not installed."""
    needed("the package ray", importlib.util.find_spec("ray") is not None)
    cluster = RayCluster(nodes)
    try:
        yield cluster
    finally:
        cluster.close()


@contextlib.contextmanager
def nodes_of(cluster: RayCluster, **options: Any) -> Iterator[RayNodes]:
    """Have the nodes of a cluster, for a controller's engine."""
    nodes = RayNodes(address=cluster.address, cluster=FILE, **options)
    try:
        yield nodes
    finally:
        nodes.close()
