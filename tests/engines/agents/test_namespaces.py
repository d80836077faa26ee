"""Hosts with networks of their own: nothing is shared but files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from staves.testing._engine_job import Job
from tests.engines.agents.several import EMULATED, engine

NODES = ("left", "right")


@dataclass(frozen=True)
class Network:
    """A bridge on this machine, and a namespace on it for each node."""

    bridge: str
    names: dict[str, str]
    host: str


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


@pytest.fixture(params=[4, 6])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and ip")
    tag = f"st{os.getpid() % 100000}"
    bridge, names = f"{tag}b", {node: f"{tag}-{node}" for node in NODES}
    hosts = [f"10.213.7.{n}" if request.param == 4 else f"fd5a:7::{n}" for n in (1, 2, 3)]
    bits, more = (24, "") if request.param == 4 else (64, " nodad")
    made = []
    try:
        ip(f"link add {bridge} type bridge")
        made.append(f"link del {bridge}")
        ip(f"addr add {hosts[0]}/{bits} dev {bridge}{more}")
        ip(f"link set {bridge} up")
        for number, name in enumerate(names.values(), 1):
            ip(f"netns add {name}")
            made.append(f"netns del {name}")
            ip(f"link add {tag}{number} type veth peer name eth0 netns {name}")
            made.append(f"link del {tag}{number}")
            ip(f"link set {tag}{number} master {bridge} up")
            ip(f"-n {name} addr add {hosts[number]}/{bits} dev eth0{more}")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")  # one's own address is reached by it
    except subprocess.CalledProcessError as error:
        for words in reversed(made):
            ip(words)
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    yield Network(bridge, names, hosts[0])
    for words in reversed(made):
        ip(words)


@pytest.mark.parametrize("by", ["address", "interface"])
def test_it_trains_across_them(network: Network, tmp_path: Path, by: str) -> None:
    """Loopback is each node's own: ranks meet at their nodes' addresses, or not at all."""
    prefixes = {node: ["ip", "netns", "exec", name] for node, name in network.names.items()}
    interface = f"{network.bridge},eth0" if by == "interface" else None
    host = "127.0.0.1" if by == "interface" else network.host
    job = Job(
        lambda: engine(
            tmp_path / "home", EMULATED, prefixes=prefixes, host=host, interface=interface
        ),
        tmp_path / "work",
    )
    try:
        job.train(job.devices[1:3])
        job.until_on(job.devices[1:3])
        job.resize(job.devices[1:4], request=1)
        job.until_on(job.devices[1:4])
        job.allow(None)
        done = job.end().ended
        assert done is not None
        assert done.end == "finished", job.log()
        job.prove()
    finally:
        job.abandon()
