"""The local engine: worker processes on this machine, under a supervisor of our own."""

from staves.engines.local._logs import LogFolder, staves_home
from staves.engines.local._supervisor import Outcome, Supervisor

__all__ = ["LogFolder", "Outcome", "Supervisor", "staves_home"]
