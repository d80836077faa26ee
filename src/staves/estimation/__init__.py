"""What a job's speed would be on devices that it has or has not run on.

Estimators are called like `scheduling.Rates`: configurations (C, G) in, reference samples a second
(C,) out. numpy; no torch.
"""

from staves.estimation._informed import LINES_LOG_STD, InformedRates, worth_measuring
from staves.estimation._profile import JobProfile
from staves.estimation._rates import LOSS, EvenRates, GuessedRates, ProfileRates, efficiency
from staves.estimation._sia_fit import Point, ThroughputFit, fit_throughput
from staves.estimation._sia_rates import (
    BatchChoice,
    BatchLimits,
    GradientStatistics,
    SiaRates,
    choose_batch,
)
from staves.estimation._speeds import relative_speeds
from staves.estimation._steps import TypeLines
from staves.estimation.filtering import (
    Cell,
    CollaborativeFilter,
    Exchanges,
    FilteredRates,
    History,
    Measured,
    Measurements,
    Prediction,
    Probe,
    SyncFilter,
    cells_of,
)

__all__ = [
    "LINES_LOG_STD",
    "LOSS",
    "BatchChoice",
    "BatchLimits",
    "Cell",
    "CollaborativeFilter",
    "EvenRates",
    "Exchanges",
    "FilteredRates",
    "GradientStatistics",
    "GuessedRates",
    "History",
    "InformedRates",
    "JobProfile",
    "Measured",
    "Measurements",
    "Point",
    "Prediction",
    "Probe",
    "ProfileRates",
    "SiaRates",
    "SyncFilter",
    "ThroughputFit",
    "TypeLines",
    "cells_of",
    "choose_batch",
    "efficiency",
    "fit_throughput",
    "relative_speeds",
    "worth_measuring",
]
