"""Supervisor and agent let in and serve only who knows the attempt's secret."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from staves.engines.agents._agent import Agent, Calling
from staves.engines.agents._door import Door
from staves.engines.agents._link import Link
from staves.engines.agents._proof import new_challenge, prove
from staves.engines.local._loop import Loop
from staves.errors import InputError, StavesError

PATIENCE = 60.0  # seconds


class Side:
    """A door in a loop of its own, and what has come through it."""

    def __init__(self, host: str) -> None:
        self.loop = Loop()
        self.welcomed: list[tuple[str, dict[str, Any]]] = []
        self.said: list[str] = []
        self.links: list[Link] = []
        self.door = Door(
            host,
            self.loop,
            expects=lambda agent: agent == "one",
            welcome=self._welcome,
            say=self.said.append,
        )

    def _welcome(self, agent: str, link: Link, proof: str, hello: dict[str, Any]) -> None:
        self.welcomed.append((agent, hello))
        self.links.append(link)

    def until(self, ready: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not ready():
            assert time.monotonic() < end, (self.welcomed, self.said)
            self.loop.serve(0.1)

    def call(self) -> tuple[Link, list[dict[str, Any]], list[str]]:
        """Connect; return the link, the frames that come on it, and why it has ended."""
        host, _, port = self.door.address.rpartition(":")
        connection = socket.create_connection((host.strip("[]"), int(port)))
        frames: list[dict[str, Any]] = []
        ends: list[str] = []
        link = Link(connection, self.loop, lambda header, data: frames.append(header), ends.append)
        self.links.append(link)
        self.until(lambda: frames)
        return link, frames, ends

    def close(self) -> None:
        self.door.close()
        for link in self.links:
            link.close()
        self.loop.close()


@pytest.fixture(params=["127.0.0.1", "::1"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    try:
        made = Side(request.param)
    except StavesError:
        pytest.skip(f"this machine has no {request.param}")
    yield made
    made.close()


def greeting(token: str, agent: str, theirs: str) -> dict[str, Any]:
    own = new_challenge()
    proof = prove(token, "agent", agent, theirs, own)
    return {"agent": agent, "challenge": own, "proof": proof, "node": "n"}


def test_who_knows_the_secret_gets_in(side: Side) -> None:
    link, frames, _ = side.call()
    link.send("hello", **greeting(side.door.token, "one", frames[0]["challenge"]))
    side.until(lambda: side.welcomed)
    assert side.welcomed[0][0] == "one"
    assert side.said == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"proof": "0" * 64}, "does not know"),
        ({"proof": None}, "does not know"),
        ({"proof": "é"}, "does not know"),
        ({"agent": "two"}, "does not know"),  # the proof is that of another agent
        ({"challenge": "x"}, "does not know"),
    ],
)
def test_who_does_not_is_sent_away(side: Side, change: dict[str, Any], why: str) -> None:
    link, frames, ends = side.call()
    hello = greeting(side.door.token, "one", frames[0]["challenge"])
    link.send("hello", **(hello | change))
    side.until(lambda: ends)
    assert why in side.said[0]
    assert side.welcomed == []


def test_a_wrong_token_is_refused(side: Side) -> None:
    link, frames, ends = side.call()
    link.send("hello", **greeting("not the token", "one", frames[0]["challenge"]))
    side.until(lambda: ends)
    assert frames[1]["kind"] == "refused"
    assert side.welcomed == []


def test_an_old_greeting_does_not_get_in_again(side: Side) -> None:
    link, frames, _ = side.call()
    hello = greeting(side.door.token, "one", frames[0]["challenge"])
    link.send("hello", **hello)
    side.until(lambda: side.welcomed)
    again, _, ends = side.call()
    again.send("hello", **hello)
    side.until(lambda: ends)
    assert len(side.welcomed) == 1


def test_nobody_who_is_not_waited_for(side: Side) -> None:
    link, frames, ends = side.call()
    link.send("hello", **greeting(side.door.token, "two", frames[0]["challenge"]))
    side.until(lambda: ends)
    assert side.welcomed == []


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, b"\0\0\0\2\0\0\0\0[]"])
def test_noise_is_sent_away(side: Side, data: bytes) -> None:
    host, _, port = side.door.address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port))) as connection:
        connection.sendall(data)
        connection.setblocking(False)
        rest: list[bytes] = []

        def over() -> bool:
            try:
                rest.append(connection.recv(1 << 16))
            except BlockingIOError:
                return False
            except OSError:
                return True
            return rest[-1] == b""

        side.until(over)
    assert side.welcomed == []


def test_an_agent_does_not_serve_a_stranger(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody else listens where the supervisor did, and wants a command to be run."""
    loop = Loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = Agent(Calling(f"127.0.0.1:{listener.getsockname()[1]}", "n", "one", "secret"))
        connection, _ = listener.accept()
    stranger = Link(connection, loop, lambda header, data: None, lambda reason: None)
    stranger.send("challenge", challenge="x")
    orders = {"command": ["/bin/sh", "-c", "echo x > ran"], "environ": {}, "workdir": "/"}
    stranger.send("begin", proof="0" * 64, devices=[], per_device=True, silence=1.0, **orders)
    stranger.send("start", member=0, rank=0, device={}, environ={})
    assert agent.run() == 1
    assert "does not know the attempt's secret" in capsys.readouterr().out
    stranger.close()
    loop.close()


def test_a_supervisor_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StavesError, match="cannot be reached"):
        Agent(Calling(f"127.0.0.1:{port}", "n", "one", "secret"))
    with pytest.raises(InputError, match="no such interface"):
        Agent(Calling(f"127.0.0.1:{port}", "n", "one", "secret", interface="nowhere0"))


def test_the_secret_is_not_in_what_is_shown(tmp_path: Path) -> None:
    from staves.engines.agents import AgentOrder

    order = AgentOrder("one", "n", (), "127.0.0.1:1", "secret-token")
    assert "secret-token" not in repr(order)
    assert not any("secret-token" in word for word in order.command())
