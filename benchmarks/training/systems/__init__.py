"""The systems that are compared, each in our own words: one small file each.

Ours is `staves.training.Learner` itself.
"""

from benchmarks.training.systems.adaptdl_like import AdaptDLLike
from benchmarks.training.systems.ddp import DDP
from benchmarks.training.systems.lb_bsp import LBBSP
from benchmarks.training.systems.lines_adaptive import LinesAdaptive
from benchmarks.training.systems.oracle import Oracle
from benchmarks.training.systems.proportional import Proportional
from benchmarks.training.systems.proportional_adaptive import ProportionalAdaptive

__all__ = [
    "DDP",
    "LBBSP",
    "AdaptDLLike",
    "LinesAdaptive",
    "Oracle",
    "Proportional",
    "ProportionalAdaptive",
]
