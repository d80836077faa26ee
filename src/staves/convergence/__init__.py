"""Convergence: the gradient noise scale, statistical efficiency, goodput and its best batch.

Stands alone, as `staves.steptime` does: numpy, no torch.
"""

from staves.convergence import learning_rate, noise_scale
from staves.convergence._efficiency import efficiency, gain
from staves.convergence._goodput import BestBatch, best_batch, goodput
from staves.convergence._running import RunningNoiseScale
from staves.convergence.noise_scale import NoiseScale

__all__ = [
    "BestBatch",
    "NoiseScale",
    "RunningNoiseScale",
    "best_batch",
    "efficiency",
    "gain",
    "goodput",
    "learning_rate",
    "noise_scale",
]
