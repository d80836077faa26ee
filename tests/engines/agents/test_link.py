"""Frames arrive whole and in order, whatever the line does with them."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.engines.agents._addresses import join, split
from staves.engines.agents._link import Link
from staves.engines.local._loop import Loop
from staves.errors import InputError

FRAMES = st.lists(
    st.tuples(st.dictionaries(st.text(max_size=5), st.integers()), st.binary(max_size=200_000)),
    max_size=6,
)


class Ends:
    """Both ends of a line in one loop."""

    def __init__(self, **options: Any) -> None:
        self.loop = Loop()
        self.came: list[tuple[dict[str, Any], bytes]] = []
        self.lost: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.near = Link(near, self.loop, lambda header, data: None, lambda reason: None)
        self.far = Link(
            far,
            self.loop,
            lambda header, data: self.came.append((header, data)),
            self.lost.append,
            **options,
        )

    def close(self) -> None:
        self.near.close()
        self.far.close()
        self.loop.close()


@settings(deadline=None, max_examples=30)
@given(FRAMES)
def test_they_arrive_whole_and_in_order(frames: list[tuple[dict[str, int], bytes]]) -> None:
    ends = Ends()
    for fields, data in frames:
        ends.near.send("x", data, fields=fields)
    while len(ends.came) < len(frames):
        ends.loop.serve(10.0)
    assert [(header["fields"], data) for header, data in ends.came] == frames
    ends.near.close()
    while not ends.lost:
        ends.loop.serve(10.0)
    ends.close()


def test_one_that_is_too_long_ends_the_line() -> None:
    ends = Ends(longest=100)
    ends.near.send("x", b"x" * 100)
    ends.near.send("x", b"x" * 101)
    while not ends.lost:
        ends.loop.serve(10.0)
    assert len(ends.came) == 1
    ends.close()


@pytest.mark.parametrize(
    ("host", "written"), [("10.0.0.1", "10.0.0.1:7"), ("fd00::1", "[fd00::1]:7")]
)
def test_addresses(host: str, written: str) -> None:
    assert join(host, 7) == written
    assert split(written) == (host, 7)
    with pytest.raises(InputError):
        split(host)
