"""The step-time model of unlike devices: fit it from measurements, and split a batch by it.

Stands alone: any trainer or scheduler can call it. numpy and scipy, no torch.
"""

from staves.steptime._cells import Cell, cells_of, merge, pool, robust_variance, typical
from staves.steptime._file import parse_model, read_model, to_document
from staves.steptime._fit import combine, fit_communication, fit_line
from staves.steptime._link_fit import fit_link
from staves.steptime._model import (
    Bottleneck,
    Communication,
    Device,
    Line,
    StepTimeModel,
    ring_share,
)
from staves.steptime._regression import LineFit, fit_cells, pooled_shape
from staves.steptime._rings import FREE, Ring, ring_to_expect, rings_of
from staves.steptime._split import (
    FractionalSplit,
    Split,
    even_split,
    integer_split,
    optimal_split,
)
from staves.steptime._sweep import Sweep, Tangent, integer_step_seconds
from staves.steptime._types import type_key, type_of

__all__ = [
    "FREE",
    "Bottleneck",
    "Cell",
    "Communication",
    "Device",
    "FractionalSplit",
    "Line",
    "LineFit",
    "Ring",
    "Split",
    "StepTimeModel",
    "Sweep",
    "Tangent",
    "cells_of",
    "combine",
    "even_split",
    "fit_cells",
    "fit_communication",
    "fit_line",
    "fit_link",
    "integer_split",
    "integer_step_seconds",
    "merge",
    "optimal_split",
    "parse_model",
    "pool",
    "pooled_shape",
    "read_model",
    "ring_share",
    "ring_to_expect",
    "rings_of",
    "robust_variance",
    "to_document",
    "type_key",
    "type_of",
    "typical",
]
