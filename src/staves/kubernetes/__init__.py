"""Manifests for Kubernetes: a job as a JobSet, or as a TrainJob of Kubeflow Trainer.

Pure: what a job needs (`Workload`) and where its platform wants it (`Platform`) in, a checked
manifest out. Nothing here talks to a cluster, and none of it has run on a real one.
"""

from staves.kubernetes._counting import groups_of
from staves.kubernetes._devices import PRODUCT_LABEL, Selectors
from staves.kubernetes._jobset import jobset
from staves.kubernetes._models import JobSet
from staves.kubernetes._notes import UNTRIED, notes
from staves.kubernetes._text import document, to_yaml
from staves.kubernetes._trainjob import trainjob
from staves.kubernetes._trainjob_models import TrainJob
from staves.kubernetes._workload import Claim, Group, Platform, Workload, object_name

__all__ = [
    "PRODUCT_LABEL",
    "UNTRIED",
    "Claim",
    "Group",
    "JobSet",
    "Platform",
    "Selectors",
    "TrainJob",
    "Workload",
    "document",
    "groups_of",
    "jobset",
    "notes",
    "object_name",
    "to_yaml",
    "trainjob",
]
