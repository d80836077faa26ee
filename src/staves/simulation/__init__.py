"""The same policies on simulated time: what would have happened to these jobs on this cluster.

What trains step by step loads with its first use: it calls the trainer's own planner, and with that
loads torch.
"""

from __future__ import annotations

from staves.simulation._application import Application, Statistics
from staves.simulation._availability import Availability
from staves.simulation._compare import FIGURES, compare
from staves.simulation._conditions import Conditions
from staves.simulation._decide_only import Timed, decide_only, synthetic_view
from staves.simulation._describe import demand, describe
from staves.simulation._generate import generate
from staves.simulation._intervals import interval, over_seeds
from staves.simulation._material import material, synthetic_jobs
from staves.simulation._own_form import to_own_form
from staves.simulation._part import part
from staves.simulation._profiles import read_profiles
from staves.simulation._report import write_report
from staves.simulation._results import JobResult, Pause, Simulation, Span, Timing
from staves.simulation._runs import IN_PLACE_SECONDS, Experiment, run, run_all
from staves.simulation._setup import SETUPS, TYPE_NAMES, Setup, sia_cluster
from staves.simulation._simulate import replay, simulate
from staves.simulation._submissions import AnyApplication, submissions
from staves.simulation._summary import job_document, summary
from staves.simulation._synthetic import synthetic_applications
from staves.simulation._trace_plot import write_plot
from staves.simulation._work import FluidWork, Placement, Submission, Work
from staves.simulation._workload import Request, Workload
from staves.simulation.readers import (
    NodeList,
    Sheet,
    ThroughputTable,
    read_availability,
    read_file,
    read_node_list,
    read_sheet,
    read_workload,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from staves.simulation._engine import SimulatedEngine
    from staves.simulation._training import Overheads, SimulatedTraining, TrainingTruth

_LAZY = {
    "Overheads": "_training",
    "SimulatedEngine": "_engine",
    "SimulatedTraining": "_training",
    "TrainingTruth": "_training",
}

__all__ = [
    "FIGURES",
    "IN_PLACE_SECONDS",
    "SETUPS",
    "TYPE_NAMES",
    "AnyApplication",
    "Application",
    "Availability",
    "Conditions",
    "Experiment",
    "FluidWork",
    "JobResult",
    "NodeList",
    "Overheads",
    "Pause",
    "Placement",
    "Request",
    "Setup",
    "Sheet",
    "SimulatedEngine",
    "SimulatedTraining",
    "Simulation",
    "Span",
    "Statistics",
    "Submission",
    "ThroughputTable",
    "Timed",
    "Timing",
    "TrainingTruth",
    "Work",
    "Workload",
    "compare",
    "decide_only",
    "demand",
    "describe",
    "generate",
    "interval",
    "job_document",
    "material",
    "over_seeds",
    "part",
    "read_availability",
    "read_file",
    "read_node_list",
    "read_profiles",
    "read_sheet",
    "read_workload",
    "replay",
    "run",
    "run_all",
    "sia_cluster",
    "simulate",
    "submissions",
    "summary",
    "synthetic_applications",
    "synthetic_jobs",
    "synthetic_view",
    "to_own_form",
    "write_plot",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"staves.simulation.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'staves.simulation' has no attribute {name!r}")
