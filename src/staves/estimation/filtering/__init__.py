"""Collaborative filtering of throughput: from past jobs and a few probes to all configurations.

Everything is Gaussian in ln(throughput): see docs/estimation.md.
"""

from staves.estimation.filtering._cells import Cell, CellSpace
from staves.estimation.filtering._filter import NOISE, CollaborativeFilter
from staves.estimation.filtering._gaussian import Gaussian, Row
from staves.estimation.filtering._history import History, Measured, Measurements
from staves.estimation.filtering._prediction import Prediction
from staves.estimation.filtering._probe import PROBE_COST, REGRET_OF_ERROR, Probe, choose_probe
from staves.estimation.filtering._rates import FilteredRates, cells_of
from staves.estimation.filtering._sync import Exchanges, SyncFilter

__all__ = [
    "NOISE",
    "PROBE_COST",
    "REGRET_OF_ERROR",
    "Cell",
    "CellSpace",
    "CollaborativeFilter",
    "Exchanges",
    "FilteredRates",
    "Gaussian",
    "History",
    "Measured",
    "Measurements",
    "Prediction",
    "Probe",
    "Row",
    "SyncFilter",
    "cells_of",
    "choose_probe",
]
