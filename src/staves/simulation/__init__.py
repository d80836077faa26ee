"""The same policies on simulated time: what would have happened to these jobs on this cluster."""

from staves.simulation._conditions import Conditions
from staves.simulation._results import JobResult, Pause, Simulation, Span, Timing
from staves.simulation._simulate import replay, simulate
from staves.simulation._work import FluidWork, Placement, Submission, Work

__all__ = [
    "Conditions",
    "FluidWork",
    "JobResult",
    "Pause",
    "Placement",
    "Simulation",
    "Span",
    "Submission",
    "Timing",
    "Work",
    "replay",
    "simulate",
]
