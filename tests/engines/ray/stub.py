"""A worker whose training steps are naps: it follows the membership, and needs no torch.

Its state is its step, which a commit tells. Run as `python stub.py`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from typing import Any

from staves.membership import Commit, Follower

NAP = 0.5  # seconds of a step: there may be many of these on few cores


class Stub:
    """Speaks with the supervisor over the inherited line."""

    def __init__(self) -> None:
        self._line = socket.socket(fileno=int(os.environ["STAVES_CHANNEL"]))
        self._follower = Follower(int(os.environ["STAVES_MEMBER"]))
        self._partial, self._dismissed, self._step = b"", False, 0

    def run(self) -> None:
        """Train until the supervisor sends it away."""
        device = json.loads(os.environ["STAVES_DEVICE"])
        about = {"cap": None, "device": {"profile": None, "link": None, **device}}
        self._send("hello", fingerprint="a stub", about=about, fixed=False)
        while True:
            action = self._follower.boundary(self._step, time.monotonic())
            self._answer()
            if self._dismissed or action == "leave":
                self._send("left", step=self._step)
                return
            if action == "switch":
                self._switch(self._follower.switched())
            else:
                self._listen(NAP if action == "go" else 10.0)
                self._step += action == "go"

    def _switch(self, commit: Commit) -> None:
        self._answer()
        if self._follower.member in commit.receivers:
            self._follower.state_received()
            self._answer()
            self._step = self._follower.step
        self._send(
            "formed",
            rank=commit.members.index(self._follower.member),
            generation=commit.generation,
            step=self._step,
            devices=[about["device"]["name"] for about in commit.about],
            length=0,
            checkpoint=None,
        )

    def _listen(self, seconds: float) -> None:
        """Take in what is said within that time, or at once what is said first."""
        if not select.select([self._line], [], [], seconds)[0]:
            return
        data = self._line.recv(1 << 16)
        if not data:
            sys.exit(1)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
            self._answer()

    def _take(self, message: dict[str, Any]) -> None:
        kind = message.pop("kind")
        if kind == "propose":
            self._follower.proposed(message["generation"], message["broken"])
        elif kind == "withdraw":
            self._follower.withdrawn(message["generation"])
        elif kind == "leave":
            self._dismissed = True
        elif kind == "lease":
            self._follower.lease(time.monotonic() + message["seconds"])
            self._send("beat", waits=False)
        elif kind == "commit":
            del message["address"]
            for name in ("to", "members", "receivers", "about"):
                message[name] = tuple(message[name])
            self._follower.committed(Commit(**message))

    def _answer(self) -> None:
        if (answer := self._follower.answer()) is not None:
            generation, step, complete = answer
            self._send("prepared", generation=generation, step=step, complete=complete)

    def _send(self, kind: str, **fields: Any) -> None:
        self._line.sendall(json.dumps({"kind": kind, **fields}).encode() + b"\n")


if __name__ == "__main__":
    Stub().run()
