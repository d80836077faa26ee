"""Two nodes with networks of their own, joined by a bridge whose ports are shaped."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from staves.errors import StavesError

NODES = ("left", "right")
_HOSTS = ("10.214.7.1", "10.214.7.2", "10.214.7.3")
_BURST = "64kb"  # the largest piece that the kernel hands over at once; more would go unshaped


@dataclass(frozen=True, slots=True)
class Network:
    """What an engine must know of the network.

    Args:
        host: this machine's own address, on the bridge.
        prefixes: by node, what stands before a command that runs there.
    """

    host: str
    prefixes: dict[str, list[str]]


@contextlib.contextmanager
def joined(megabits: float) -> Iterator[Network]:
    """Make two namespaces, each behind a link of that speed each way, for as long as this lasts.

    Supervisors and stores are on the bridge itself: what they say goes over a node's link, too.

    Args:
        megabits: a second.

    Raises:
        StavesError: this machine, or this user, cannot have such a network.
    """
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
        raise StavesError("network namespaces need root, and the commands ip and tc")
    tag = f"sl{os.getpid() % 100000}"
    with contextlib.ExitStack() as undo:

        def make(words: str, away: str = "") -> None:
            _run(words.split())
            if away:
                undo.callback(_run, away.split())

        bridge = f"{tag}b"
        make(f"ip link add {bridge} type bridge", f"ip link del {bridge}")
        make(f"ip addr add {_HOSTS[0]}/24 dev {bridge}")
        make(f"ip link set {bridge} up")
        for number, node in enumerate(NODES, 1):
            name, port = f"{tag}-{node}", f"{tag}{number}"
            make(f"ip netns add {name}", f"ip netns del {name}")
            make(f"ip link add {port} type veth peer name eth0 netns {name}", f"ip link del {port}")
            make(f"ip link set {port} master {bridge} up")
            make(f"ip -n {name} addr add {_HOSTS[number]}/24 dev eth0")
            make(f"ip -n {name} link set eth0 up")
            make(f"ip -n {name} link set lo up")
            shape = f"root tbf rate {megabits:g}mbit burst {_BURST} latency 50ms"
            make(f"tc qdisc add dev {port} {shape}")  # to the node
            make(f"tc -n {name} qdisc add dev eth0 {shape}")  # from it
        prefixes = {node: ["ip", "netns", "exec", f"{tag}-{node}"] for node in NODES}
        yield Network(_HOSTS[0], prefixes)


def _run(words: Sequence[str]) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        line = " ".join(said.split())
        raise StavesError(
            f"no shaped network namespaces here: {' '.join(words)}: {line}",
            hint="they need root, CAP_NET_ADMIN, and the kernel's modules bridge, veth and sch_tbf",
        ) from None
