"""What is trained: model, data and held-out data of each workload, from a seed; one file each.

The data are the same for all seeds; the seed is that of the weights and of the order.
"""

from benchmarks.training.workloads.images import images
from benchmarks.training.workloads.language import language
from benchmarks.training.workloads.pictures import pictures
from benchmarks.training.workloads.recommendation import recommendation
from benchmarks.training.workloads.speech import speech
from benchmarks.training.workloads.task import Batch, Batched, Task, as_they_are

__all__ = [
    "Batch",
    "Batched",
    "Task",
    "as_they_are",
    "images",
    "language",
    "pictures",
    "recommendation",
    "speech",
]
