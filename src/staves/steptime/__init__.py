"""The step-time model of unlike devices: fit it from measurements, and split a batch by it.

Stands alone: any trainer or scheduler can call it. numpy and scipy, no torch.
"""

from staves.steptime._model import Bottleneck, Communication, Device, Line, StepTimeModel
from staves.steptime._split import (
    FractionalSplit,
    Split,
    even_split,
    integer_split,
    optimal_split,
)

__all__ = [
    "Bottleneck",
    "Communication",
    "Device",
    "FractionalSplit",
    "Line",
    "Split",
    "StepTimeModel",
    "even_split",
    "integer_split",
    "optimal_split",
]
