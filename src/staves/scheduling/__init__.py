"""Policies: a view of cluster and jobs in, a decision out; and from counts to devices."""

from staves.scheduling._fifo import Fifo
from staves.scheduling._place import Placing, place
from staves.scheduling._policy import Estimator, JobKind, Policy
from staves.scheduling._probes import with_probes
from staves.scheduling._registry import policies, policy
from staves.scheduling._sia import Sia
from staves.scheduling._srtf import Srtf
from staves.scheduling._tiresias import Tiresias
from staves.scheduling._view import Counts, Decision, JobView, Option, Rates, Reason, View
from staves.scheduling.gavel import Gavel, GavelFtf, GavelMakespan, GavelMaxMin
from staves.scheduling.heet import Heet

__all__ = [
    "Counts",
    "Decision",
    "Estimator",
    "Fifo",
    "Gavel",
    "GavelFtf",
    "GavelMakespan",
    "GavelMaxMin",
    "Heet",
    "JobKind",
    "JobView",
    "Option",
    "Placing",
    "Policy",
    "Rates",
    "Reason",
    "Sia",
    "Srtf",
    "Tiresias",
    "View",
    "place",
    "policies",
    "policy",
    "with_probes",
]
