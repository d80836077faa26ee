"""Data-parallel PyTorch training over unlike devices.

`init` starts a run; the run prepares a model, its optimizer and its data, weighs the gradients by
each rank's samples, learns the devices' speeds, and splits each batch optimally.
"""

from staves.training._batch import Adaptive
from staves.training._channel import Channel
from staves.training._init import init
from staves.training._pacing import Pacer
from staves.training._planner import Plan
from staves.training._refusal import report_input_errors
from staves.training._run import Run
from staves.training._sampler import Cut, GlobalCursor, apportion, permutation
from staves.training._splits import Split
from staves.training._timing import StepRecord
from staves.training._virtual import VirtualStep, VirtualTrainer
from staves.training._virtual_clock import VirtualClock
from staves.training._virtual_system import Decision, Learner, Situation, System, VirtualJob
from staves.training._virtual_truth import Contention, VirtualTruth

__all__ = [
    "Adaptive",
    "Contention",
    "Cut",
    "Decision",
    "GlobalCursor",
    "Learner",
    "Pacer",
    "Plan",
    "Run",
    "Situation",
    "Split",
    "StepRecord",
    "System",
    "VirtualClock",
    "VirtualJob",
    "VirtualStep",
    "VirtualTrainer",
    "VirtualTruth",
    "apportion",
    "init",
    "permutation",
]

# Under a supervisor an input error is one line from here on, also one of a bare
# `staves.Adaptive(...)`.
report_input_errors(Channel.inherited())
