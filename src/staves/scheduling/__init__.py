"""Policies: a view of cluster and jobs in, a decision out; and from counts to devices."""

from staves.scheduling._afs import Afs
from staves.scheduling._allox import Allox
from staves.scheduling._contract import decision_of, violation
from staves.scheduling._elasticflow import ElasticFlow
from staves.scheduling._fifo import Fifo
from staves.scheduling._growing import Growing
from staves.scheduling._heet_paper import HeetPaper
from staves.scheduling._ladders import Ladders, decided, ladders
from staves.scheduling._lyra import Lyra
from staves.scheduling._optimus import Optimus
from staves.scheduling._place import Placing, place
from staves.scheduling._policy import Estimator, JobKind, Policy
from staves.scheduling._pollux import Pollux
from staves.scheduling._pollux_genetic import PolluxGenetic
from staves.scheduling._probes import with_probes
from staves.scheduling._quotas import check_quotas
from staves.scheduling._registry import policies, policy, unusable
from staves.scheduling._settled import settled
from staves.scheduling._shockwave import Shockwave
from staves.scheduling._sia import Sia
from staves.scheduling._srtf import Srtf
from staves.scheduling._themis import Themis
from staves.scheduling._tiresias import Tiresias
from staves.scheduling._view import (
    Counts,
    Decision,
    Doubt,
    JobView,
    Option,
    Rates,
    Reason,
    View,
    doubt_of,
    is_fixed,
)
from staves.scheduling.gavel import Gavel, GavelFtf, GavelMakespan, GavelMaxMin
from staves.scheduling.heet import Heet

__all__ = [
    "Afs",
    "Allox",
    "Counts",
    "Decision",
    "Doubt",
    "ElasticFlow",
    "Estimator",
    "Fifo",
    "Gavel",
    "GavelFtf",
    "GavelMakespan",
    "GavelMaxMin",
    "Growing",
    "Heet",
    "HeetPaper",
    "JobKind",
    "JobView",
    "Ladders",
    "Lyra",
    "Optimus",
    "Option",
    "Placing",
    "Policy",
    "Pollux",
    "PolluxGenetic",
    "Rates",
    "Reason",
    "Shockwave",
    "Sia",
    "Srtf",
    "Themis",
    "Tiresias",
    "View",
    "check_quotas",
    "decided",
    "decision_of",
    "doubt_of",
    "is_fixed",
    "ladders",
    "place",
    "policies",
    "policy",
    "settled",
    "unusable",
    "violation",
    "with_probes",
]
