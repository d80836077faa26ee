"""The local engine: worker processes on this machine, under a supervisor of our own."""

from staves.engines.local._attempt import AttemptFolder, newest_attempt
from staves.engines.local._control import ask
from staves.engines.local._deadlines import Deadlines
from staves.engines.local._engine import LocalEngine
from staves.engines.local._epoch_log import EpochLog
from staves.engines.local._folder import RunFolder, staves_home
from staves.engines.local._history import job_ledger
from staves.engines.local._losses import EpochLosses
from staves.engines.local._outcome import Outcome, summarise
from staves.engines.local._places import local_ranks
from staves.engines.local._supervisor import Supervisor

__all__ = [
    "AttemptFolder",
    "Deadlines",
    "EpochLog",
    "EpochLosses",
    "LocalEngine",
    "Outcome",
    "RunFolder",
    "Supervisor",
    "ask",
    "job_ledger",
    "local_ranks",
    "newest_attempt",
    "staves_home",
    "summarise",
]
