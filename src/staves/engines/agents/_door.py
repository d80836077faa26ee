"""The supervisor's door: where its agents knock, and only they get in."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from staves.engines.agents._addresses import join
from staves.engines.agents._link import LONGEST, Link
from staves.engines.agents._proof import is_proof, new_challenge, new_token, prove
from staves.engines.local._loop import Loop
from staves.engines.local._sockets import listening

_GREETING = 1 << 12  # bytes of a frame of somebody unknown
_GREET_WITHIN = 10.0  # seconds
_MOST_STRANGERS = 64


class _Stranger:
    """Somebody who has knocked and has not proved anything yet."""

    def __init__(self) -> None:
        self.challenge, self.since = new_challenge(), time.monotonic()
        self.link: Link


class Door:
    """Listens for agents, and has each prove that it knows the attempt's secret.

    Args:
        host: the address to listen on.
        loop: the supervisor's.
        expects: whether an agent of that id is waited for.
        welcome: called with (id, link, proof, hello) of each agent that has proved itself: the
            link is its from then on, with `take` and `on_lost`.
        say: called with a line for people.

    Raises:
        StavesError: this machine has no such address.
    """

    def __init__(
        self,
        host: str,
        loop: Loop,
        *,
        expects: Callable[[str], bool],
        welcome: Callable[[str, Link, str, dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> None:
        self._loop, self._expects, self._welcome, self._say = loop, expects, welcome, say
        self.token = new_token()
        self._listener = listening(host)
        self._listener.setblocking(False)
        self.address = join(host, self._listener.getsockname()[1])
        self._strangers: list[_Stranger] = []
        loop.watch(self._listener.fileno(), self._accept)

    def tick(self, now: float) -> None:
        """Send away who has proved nothing for long."""
        for stranger in list(self._strangers):
            if now - stranger.since > _GREET_WITHIN:
                self._send_away(stranger, "it did not say who it is")

    def close(self) -> None:
        """Let nobody in any more."""
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        for stranger in self._strangers:
            stranger.link.close()
        self._strangers.clear()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone again
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            connection.close()
            return
        stranger = _Stranger()
        self._strangers.append(stranger)
        stranger.link = Link(
            connection,
            self._loop,
            partial(self._greeted, stranger),
            lambda reason: self._strangers.remove(stranger),
            longest=_GREETING,
        )
        stranger.link.send("challenge", challenge=stranger.challenge)

    def _greeted(self, stranger: _Stranger, header: dict[str, Any], data: bytes) -> None:
        agent, theirs = str(header.get("agent")), str(header.get("challenge"))
        challenges = stranger.challenge, theirs
        if not is_proof(header.get("proof"), self.token, "agent", agent, *challenges):
            self._send_away(stranger, "it does not know the attempt's secret")
        elif not self._expects(agent):
            self._send_away(stranger, f"no agent {agent[:80]!r} is waited for")
        else:
            self._strangers.remove(stranger)
            stranger.link.longest = LONGEST
            own = prove(self.token, "supervisor", agent, *challenges)
            self._welcome(agent, stranger.link, own, header)

    def _send_away(self, stranger: _Stranger, reason: str) -> None:
        self._strangers.remove(stranger)
        self._say(f"somebody who came to {self.address} was sent away: {reason}")
        stranger.link.send("refused", reason=reason)
        stranger.link.close()
