"""How a run with an adaptive batch stands: noise scale, progress, learning-rate factor.

All of it is computed from numbers that all ranks have alike, so every rank knows it without being
told; it goes with the training state to checkpoints and joiners.

Progress counts in steps of the reference batch: a step of a larger batch is worth its gain
(Pollux, OSDI '21; AdaScale, ICML 2020).
"""

from __future__ import annotations

import math
from typing import Any

from torch.optim import Adadelta, Adagrad, Optimizer, RMSprop

from staves.convergence import RunningNoiseScale, gain
from staves.convergence.learning_rate import RULES
from staves.training._batch import Adaptive
from staves.training._batch_choice import BatchRange
from staves.training._noise import Measured


class Adaptation:
    """The adaptive batch of a run.

    Args:
        wanted: what the script asks for.
        pinned: the total batch, where the launcher fixes it.
    """

    def __init__(self, wanted: Adaptive, *, pinned: int | None = None) -> None:
        self.reference, self._most = wanted.reference, wanted.max
        self._pinned, self._rule = pinned, wanted.learning_rate
        self.batch = pinned or wanted.reference
        self.running = RunningNoiseScale()
        self.progress = 0.0
        """Steps of the reference batch that committed steps are worth."""
        self.factor = 1.0
        """On the learning rates, in the last update."""
        self.target: float | None = None
        """The progress at which training ends; None: it ends by passes over the data."""
        self._left_out = 0.0
        self._preconditioned = False
        self._largest = self.batch
        self._usable = 0.0

    def allowed(self, samples: int | None) -> BatchRange:
        """Return the batches to choose from; none is larger than a data set of `samples`."""
        if self._pinned is not None:
            return BatchRange(self.reference, self._pinned, self._pinned)
        bounds = [bound for bound in (self._most, samples) if bound is not None]
        most = max(self.reference, min(bounds, default=self.reference))
        return BatchRange(self.reference, self.reference, most)

    @property
    def noise_scale(self) -> float | None:
        """The noise scale that is acted on, in samples; None before a few steps were measured."""
        return self._usable if self.running.steps >= RunningNoiseScale.FEWEST_STEPS else None

    def gain(self, batch: int) -> float:
        """Return what a step of `batch` samples is worth, in steps of the reference batch.

        A short last batch of an epoch counts as a step, as it does everywhere.
        """
        return gain(self._usable, max(batch, self.reference), self.reference)

    def learning_rate_factor(self, batch: int, optimizer: Optimizer) -> float:
        """Return the factor on the learning rates of an optimizer for a step of that batch."""
        name = self._rule
        if name == "auto":
            name = "square-root" if adam_like(optimizer) else "adascale"
        self.factor = RULES[name](self.gain(batch), max(1.0, batch / self.reference))
        return self.factor

    @property
    def complete(self) -> bool:
        """Whether progress has reached the target: a pass over the data may be cut then."""
        if self.target is None:
            return False
        return self.progress + self._left_out >= self.target * (1 - 1e-12)

    def samples_left(self, samples: int) -> float:
        """Return how many samples the target is away, each worth what the `samples` so far were."""
        if self.target is None or not self.progress > 0:
            return math.inf
        left = max(0.0, self.target - self._left_out - self.progress)
        return left * samples / self.progress

    def leave_out(self, steps: float) -> None:
        """The script wants that many reference steps of a pass no more: they count as made."""
        self._left_out += steps

    def schedule_moves(self, batch: int) -> int:
        """Return how many reference batches are completed by the step under way."""
        return math.floor(self.progress + self.gain(batch)) - math.floor(self.progress)

    def committed(self, batch: int, measured: Measured | None) -> None:
        """A step of `batch` samples counts, and an earlier one's norms have come."""
        self.progress += self.gain(batch)
        self._largest = max(self._largest, batch)
        if measured is None:
            return
        if measured.preconditioned != self._preconditioned:
            self._preconditioned = measured.preconditioned
            self.running.restart()
        self.running.add(measured.noise_scale, batch=measured.batch, reference=self.reference)
        self._usable = self.running.usable(self._largest)

    def to_document(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "reference": self.reference,
            "batch": self.batch,
            "progress": self.progress,
            "left_out": self._left_out,
            "largest": self._largest,
            "preconditioned": self._preconditioned,
            "running": self.running.to_document(),
        }

    def load_document(self, document: dict[str, Any], *, unit: float = 1.0) -> None:
        """Take over what `to_document` wrote; the batch as far as this script allows it.

        Args:
            document: may be of a run with another reference batch.
            unit: steps of this run's reference batch that one of the document's is worth.
        """
        batch = max(self.reference, document["batch"])
        self.batch = self._pinned or min(batch, self._most or batch)
        self.progress = unit * document["progress"]
        self._left_out = unit * document["left_out"]
        self._largest = document["largest"]
        self._preconditioned = document["preconditioned"]
        self.running = RunningNoiseScale.from_document(document["running"])
        self.running.seen *= unit
        self._usable = self.running.usable(self._largest)


def adam_like(optimizer: Optimizer) -> bool:
    """Whether an optimizer divides by the size of its gradients."""
    return "betas" in optimizer.defaults or isinstance(optimizer, (RMSprop, Adagrad, Adadelta))
