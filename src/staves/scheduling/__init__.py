"""Policies: a view of cluster and jobs in, a decision out."""

from staves.scheduling._policy import Policy
from staves.scheduling._view import Counts, Decision, JobView, Option, Rates, Reason, View

__all__ = ["Counts", "Decision", "JobView", "Option", "Policy", "Rates", "Reason", "View"]
