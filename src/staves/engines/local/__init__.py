"""The local engine: worker processes on this machine, under a supervisor of our own."""

from staves.engines.local._logs import LogFolder
from staves.engines.local._supervisor import Outcome, Supervisor

__all__ = ["LogFolder", "Outcome", "Supervisor"]
