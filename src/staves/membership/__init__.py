"""Membership of a job in place: who trains together, from which step, and whose state wins.

Pure state machines: events in, commands out; no torch, no clock, no threads. The supervisor runs
the `Coordinator`, every worker a `Follower`; the same machines drive stub workers in tests.
"""

from staves.membership._coordinator import Coordinator
from staves.membership._follower import ROWS_WITH_STATE, SLACK, Follower
from staves.membership._ledger import (
    History,
    Ledger,
    attempt_row,
    finished_row,
    generation_row,
    replay,
    stands,
)
from staves.membership._proof import EpochProof, Proof, prove
from staves.membership._quarantine import Quarantine
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
    "ROWS_WITH_STATE",
    "SLACK",
    "Abandon",
    "Boundary",
    "Command",
    "Commit",
    "Coordinator",
    "End",
    "EpochProof",
    "Fail",
    "Follower",
    "History",
    "Joiner",
    "Ledger",
    "Proof",
    "Propose",
    "Quarantine",
    "Restart",
    "Start",
    "Withdraw",
    "attempt_row",
    "finished_row",
    "generation_row",
    "prove",
    "replay",
    "stands",
]
