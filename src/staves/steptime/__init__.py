"""The step-time model of unlike devices: fit it from measurements, and split a batch by it.

Stands alone: any trainer or scheduler can call it. numpy and scipy, no torch.
"""

from staves.steptime._file import parse_model, read_model, to_document
from staves.steptime._fit import combine, fit_communication, fit_line
from staves.steptime._model import (
    Bottleneck,
    Communication,
    Device,
    Line,
    StepTimeModel,
    ring_share,
)
from staves.steptime._split import (
    FractionalSplit,
    Split,
    even_split,
    integer_split,
    optimal_split,
)
from staves.steptime._sweep import Sweep, Tangent, integer_step_seconds

__all__ = [
    "Bottleneck",
    "Communication",
    "Device",
    "FractionalSplit",
    "Line",
    "Split",
    "StepTimeModel",
    "Sweep",
    "Tangent",
    "combine",
    "even_split",
    "fit_communication",
    "fit_line",
    "integer_split",
    "integer_step_seconds",
    "optimal_split",
    "parse_model",
    "read_model",
    "ring_share",
    "to_document",
]
