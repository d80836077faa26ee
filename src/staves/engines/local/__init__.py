"""The local engine: worker processes on this machine, under a supervisor of our own."""

from staves.engines.local._control import ask
from staves.engines.local._folder import RunFolder, staves_home
from staves.engines.local._history import job_ledger
from staves.engines.local._losses import EpochLosses
from staves.engines.local._supervisor import Outcome, Supervisor, local_ranks

__all__ = [
    "EpochLosses",
    "Outcome",
    "RunFolder",
    "Supervisor",
    "ask",
    "job_ledger",
    "local_ranks",
    "staves_home",
]
