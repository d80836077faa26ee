"""The line to the supervisor."""

from __future__ import annotations

import gc
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from staves.training._channel import Channel


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    monkeypatch.setenv("STAVES_CHANNEL", str(theirs.fileno()))
    ours.settimeout(10)
    lines: dict[str, Channel] = {}
    monkeypatch.setattr(Channel, "_inherited", lines)
    descriptor = theirs.detach()  # as after exec: no Python object holds it
    os.set_inheritable(descriptor, True)
    yield ours
    ours.close()
    for channel in lines.values():
        if channel._connection is not None:
            channel._connection.close()


def heard(listener: socket.socket) -> list[Any]:
    return [json.loads(line) for line in listener.recv(1 << 16).splitlines()]


def test_messages_are_lines(listener: socket.socket) -> None:
    channel = Channel.inherited()
    assert channel.connected
    channel.send("log", text="a\nb", number=1.5)
    channel.send("plan")
    assert heard(listener) == [{"kind": "log", "text": "a\nb", "number": 1.5}, {"kind": "plan"}]


def test_nothing_inherits_the_line_further(listener: socket.socket) -> None:
    channel = Channel.inherited()
    assert channel.connected
    assert not os.get_inheritable(int(os.environ["STAVES_CHANNEL"]))


def test_a_second_run_of_a_process_has_a_line_as_well(listener: socket.socket) -> None:
    first = Channel.inherited()
    first.send("one")
    del first
    gc.collect()
    second = Channel.inherited()
    assert second.connected
    second.send("two")
    assert [message["kind"] for message in heard(listener)] == ["one", "two"]


def test_a_supervisor_that_has_gone_is_no_error(listener: socket.socket) -> None:
    channel = Channel.inherited()
    listener.close()
    channel.send("log")
    channel.send("log")
    assert not channel.connected


@pytest.mark.parametrize("value", [None, "", "no number", "987654", "-1"])
def test_without_a_line_nothing_is_said(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAVES_CHANNEL", raising=False)
    if value is not None:
        monkeypatch.setenv("STAVES_CHANNEL", value)
    channel = Channel.inherited()
    assert not channel.connected
    channel.send("log", anything=1)
