"""The same policies on simulated time: what would have happened to these jobs on this cluster."""

from staves.simulation._results import JobResult, Pause, Simulation, Span
from staves.simulation._simulate import simulate

__all__ = ["JobResult", "Pause", "Simulation", "Span", "simulate"]
