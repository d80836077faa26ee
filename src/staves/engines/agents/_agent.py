"""The agent: on a node, for one attempt, it starts the ranks that the supervisor asks for.

It is the local engine's hosts at the end of a line: what a rank says and prints goes to the
supervisor, what the supervisor says goes to the rank. It dies with its line, and all with it.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from staves.engines.agents._addresses import address_on, split
from staves.engines.agents._keeper import NOTICE
from staves.engines.agents._link import Link
from staves.engines.agents._proof import is_proof, new_challenge, prove
from staves.engines.agents._seat import Seat
from staves.engines.local._devices import from_document
from staves.engines.local._hosts import LocalHosts, Supervision
from staves.engines.local._loop import Loop
from staves.engines.local._process import adopt_orphans, end_orphans
from staves.engines.local._worker import Worker
from staves.errors import StavesError

BEAT = 3.0
"""Seconds between two signs of life on a line."""
_WELCOME_WITHIN = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Calling:
    """Whom an agent serves.

    Args:
        supervisor: its address, `HOST:PORT`.
        node: the node's name in the cluster.
        agent: the agent's id.
        token: the attempt's secret.
        interface: which of this machine's addresses is for the ranks; None: the line's own.
    """

    supervisor: str
    node: str
    agent: str
    token: str
    interface: str | None = None


class Agent:
    """Serves one supervisor until the line ends.

    Raises:
        StavesError: the supervisor cannot be reached.
        InputError: this machine has no such interface.
    """

    def __init__(self, calling: Calling) -> None:
        self._calling = calling
        self._loop = Loop()
        self._challenge, self._theirs = new_challenge(), ""
        own = None if calling.interface is None else address_on(calling.interface)
        connection = _connect(calling.supervisor, own)
        self._link = Link(connection, self._loop, self._take, self._lost)
        self._address = own or self._link.own_host
        self._hosts: LocalHosts | None = None
        self._seat: Seat | None = None
        self._workers: dict[int, Worker] = {}
        self._silence = _WELCOME_WITHIN
        self._end: str | None = None
        self._refused = self._leaving = False

    def run(self) -> int:
        """Serve; return the exit status: 0 where all went as the supervisor wanted."""
        before = adopt_orphans()
        signal.signal(NOTICE, lambda number, frame: self._loop.post(self._must_leave))
        with self._loop.signals(lambda number: self._loop.post(lambda: self._told(number))):
            try:
                self._watch()
            finally:
                if self._hosts is not None:
                    self._hosts.close()
                end_orphans(before)
                self._link.close()  # which says that nothing is left
                self._loop.close()
        if self._end:
            print(f"agent {self._calling.agent}: ended: {self._end}", flush=True)
        return int(self._refused)

    def _watch(self) -> None:
        beaten = time.monotonic()
        while self._end is None:
            self._loop.serve(min(1.0, BEAT))
            now = time.monotonic()
            if self._hosts is not None:
                self._hosts.tick(now)
                if now - beaten >= BEAT:
                    beaten = now
                    self._link.send("beat")
            if now - self._link.heard >= self._silence:
                self._link.receive()  # where it was this process that stood still
                if now - self._link.heard >= self._silence:
                    self._link.lose(f"nothing was heard for {self._silence:g} s")

    def _told(self, number: int) -> None:
        self._lost(f"signal {number}")

    def _must_leave(self) -> None:
        """The cluster is going to end it soon: it goes on, and the supervisor plans without it."""
        self._leaving = True
        if self._hosts is not None:
            self._link.send("leaving")

    def _lost(self, reason: str) -> None:
        if self._hosts is None:
            self._refused = True
            reason = f"{self._calling.supervisor} has not taken it: {reason}"
        self._end = self._end or reason

    # -- what the supervisor says

    def _take(self, header: dict[str, Any], data: bytes) -> None:
        kind = header["kind"]
        if self._hosts is None:
            self._greet(kind, header)
        elif kind == "start":
            self._start(header)
        elif kind == "line":
            if header["member"] in self._workers:
                self._workers[header["member"]].send(data)
        elif kind == "signal":
            if header["member"] in self._workers:
                self._workers[header["member"]].signal(header["number"])
        elif kind == "end":
            self._end = ""

    def _greet(self, kind: str, header: dict[str, Any]) -> None:
        """Prove who this is, and see that the other is the supervisor before doing its will."""
        token, agent = self._calling.token, self._calling.agent
        if kind == "challenge":
            self._theirs = str(header["challenge"])
            self._link.send(
                "hello",
                agent=agent,
                node=self._calling.node,
                challenge=self._challenge,
                proof=prove(token, "agent", agent, self._theirs, self._challenge),
                address=self._address,
                pid=os.getpid(),
            )
        elif kind == "begin":
            challenges = self._theirs, self._challenge
            if not is_proof(header.get("proof"), token, "supervisor", agent, *challenges):
                self._link.lose("it does not know the attempt's secret")
                return
            self._begin(header)
        else:
            self._link.lose(str(header.get("reason", f"{kind!r} is no greeting")))

    def _begin(self, header: dict[str, Any]) -> None:
        self._silence = header["silence"]
        devices = [from_document(document) for document in header["devices"]]
        self._seat = Seat(self._address, devices, beside=header["beside"])
        supervision = Supervision(
            header["command"],
            self._seat.environ(header["environ"]),
            Path(header["workdir"]),
            self._loop,
            started=self._started,
            said=lambda worker, data: self._link.send("said", data, member=worker.member),
            printed=self._printed,
            ended=self._ended,
            unstarted=lambda member, reason: None,  # those of this machine always start
            say=lambda text: self._link.send("warning", text=text),
        )
        self._hosts = LocalHosts(supervision)
        self._hosts.want(devices, per_device=header["per_device"])
        if self._leaving:
            self._must_leave()

    def _start(self, header: dict[str, Any]) -> None:
        assert self._hosts is not None
        assert self._seat is not None
        member, device = header["member"], from_document(header["device"])
        environ = self._seat.environ(header["environ"], device)
        try:
            self._hosts.start(member, device, rank=header["rank"], environ=environ)
        except OSError as error:  # such as a folder that this node does not have
            what = f"{error.filename or 'its command'}: {error.strerror or error}"
            self._link.send("unborn", member=member, reason=f"{self._calling.node}: {what}")

    # -- what becomes of the ranks

    def _started(self, worker: Worker) -> None:
        self._workers[worker.member] = worker

    def _printed(self, worker: Worker, is_stderr: bool, data: bytes) -> None:
        self._link.send("printed", data, member=worker.member, stderr=is_stderr)

    def _ended(self, worker: Worker, status: int) -> None:
        del self._workers[worker.member]
        self._link.send("ended", member=worker.member, status=status)


def _connect(supervisor: str, own: str | None) -> socket.socket:
    source = None if own is None else (own, 0)
    try:
        return socket.create_connection(split(supervisor), timeout=30, source_address=source)
    except OSError as error:
        raise StavesError(
            f"{supervisor} cannot be reached: {error.strerror or error}",
            hint="it is the supervisor's address: choose another one with STAVES_INTERFACE",
        ) from None


def serve(calling: Calling) -> int:
    """Serve a supervisor until the line ends; return the exit status."""
    return Agent(calling).run()
