"""Membership of a job in place: who trains together, from which step, and whose state wins.

Pure state machines: events in, commands out; no torch, no clock, no threads. The supervisor runs
the `Coordinator`, every worker a `Follower`; the same machines drive stub workers in tests.
"""

from staves.membership._types import (
    Abandon,
    Boundary,
    Command,
    Commit,
    End,
    Fail,
    Joiner,
    Propose,
    Restart,
    Start,
    Withdraw,
)

__all__ = [
    "Abandon",
    "Boundary",
    "Command",
    "Commit",
    "End",
    "Fail",
    "Joiner",
    "Propose",
    "Restart",
    "Start",
    "Withdraw",
]
