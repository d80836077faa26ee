"""Heet: elastic jobs on unlike devices, by the value of every configuration to every job.

After Mo, Xu, Xu, "Heet: Accelerating Elastic Training in Heterogeneous Deep Learning Clusters"
(ASPLOS '24). The utility and the decision are this project's own.
"""

from staves.scheduling.heet._policy import Heet
from staves.scheduling.heet._utility import RESTARTS, Weights

__all__ = ["RESTARTS", "Heet", "Weights"]
