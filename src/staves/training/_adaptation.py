"""How a run with an adaptive batch stands: noise scale, progress, learning-rate factor.

All of it is computed from numbers that all ranks have alike, so every rank knows it without being
told; it goes with the training state to checkpoints and joiners.

Progress counts in steps of the reference batch: a step of a larger batch is worth its gain
(Pollux, OSDI '21; AdaScale, ICML 2020). In a smaller one, which only a launcher asks for, a sample
is worth what it is at the reference and no more, so that n passes stay n passes.
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

_SEEN, _NOISE_ERROR = 200.0, 0.03
"""Known well: so many reference batches have been seen, and tr(Sigma) has this standard error."""
_ROUNDING = 1e-6  # reference steps: far above what a long sum of gains loses, far below a step


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
        """On the learning rates, for a whole batch: the last update's, or what it would be."""
        self.target: float | None = None
        """The progress at which training ends; None: it ends by passes over the data."""
        self._left_out = 0.0
        self._moves = 0  # of schedules
        self._preconditioned = False
        self._largest = self.batch
        self._usable = 0.0
        self._since = 0  # samples, since the last step whose norms have come

    def allowed(self, samples: int | None) -> BatchRange:
        """Return the batches to choose from; none is larger than a data set of `samples`."""
        if self._pinned is not None:
            return BatchRange(self.reference, self._pinned, self._pinned)
        bounds = [bound for bound in (self._most, samples) if bound is not None]
        most = max(self.reference, min(bounds, default=self.reference))
        return BatchRange(self.reference, self.reference, most)

    @property
    def adapts(self) -> bool:
        """Whether the total batch may change at all."""
        return self._pinned is None and (self._most is None or self._most > self.reference)

    @property
    def noise_scale(self) -> float | None:
        """The noise scale that is acted on, in samples; None while it is not known."""
        known = self.acted_on is not None and self.running.interval() != (0.0, math.inf)
        return self._usable if known else None

    @property
    def acted_on(self) -> float | None:
        """As `noise_scale`, but 0 where steps were measured and tell nothing: the batch then goes
        to the reference; None before a few steps were measured."""
        return self._usable if self.running.steps >= RunningNoiseScale.FEWEST_STEPS else None

    @property
    def known_well(self) -> bool:
        """Whether the estimate is so good that not every step needs to be measured."""
        running = self.running
        return running.seen >= _SEEN and running.noise_error <= _NOISE_ERROR

    def describe_noise(self) -> str:
        """Return the noise scale for people."""
        known = self.noise_scale
        if known is None:
            return "noise scale not known yet"
        only_least = math.isinf(self.running.interval()[1])
        return f"noise scale {'>= ' if only_least else ''}{known:.0f}"

    def gain(self, batch: int) -> float:
        """Return what a step of `batch` samples is worth, in steps of the reference batch.

        A short last batch of an epoch counts as a step, as it does everywhere.
        """
        whole = self._whole(batch)
        if whole < self.reference:
            return whole / self.reference
        return gain(self._usable, whole, self.reference)

    def goodput(self, batch: int, seconds: float | None) -> float | None:
        """Return the reference samples a second of steps of `batch` samples that take `seconds`;
        None where the time or what a sample is worth is not known."""
        if not seconds or (batch > self.reference and self.noise_scale is None):
            return None
        return self.gain(batch) * self.reference / seconds

    def learning_rate_factor(self, batch: int, optimizer: Optimizer) -> float:
        """Return the factor on the learning rates of an optimizer for a step of that batch."""
        name = self._rule
        if name == "auto":
            name = "square-root" if adam_like(optimizer) else "adascale"
        rule = RULES[name]
        # What is told is not that of the short last batch of a pass.
        full = max(batch, self.batch)
        self.factor = rule(self.gain(full), self._whole(full) / self.reference)
        return rule(self.gain(batch), self._whole(batch) / self.reference)

    @property
    def complete(self) -> bool:
        """Whether progress has reached the target: a pass over the data may be cut then."""
        return self._reaches(self.progress)

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
        """Return how many reference batches are completed by the step under way.

        The step that reaches the target completes those up to it and none beyond, so that a
        schedule ends where its own count of steps does.
        """
        after = self.progress + self.gain(batch)
        made = math.floor(after + _ROUNDING)
        if self.target is not None and self._reaches(after):
            made = math.ceil(self.target - self._left_out - _ROUNDING)
        return max(0, made - self._moves)

    def count_steps(self, steps: int) -> None:
        """So many steps were made before the batch could change, each of the reference batch."""
        self.progress, self._moves = float(steps), steps

    def count_passes(self, steps: float) -> None:
        """Passes were made at a fixed batch that are worth so many steps of the reference batch."""
        self.progress += steps
        self._moves = max(self._moves, math.floor(self.progress + _ROUNDING))

    def committed(self, batch: int, measured: Measured | None) -> None:
        """A step of `batch` samples counts, and an earlier one's norms have come."""
        self._moves += self.schedule_moves(batch)
        self.progress += self.gain(batch)
        self._largest = max(self._largest, batch)
        self._since += batch
        if measured is None:
            return
        if measured.preconditioned != self._preconditioned:
            self._preconditioned = measured.preconditioned
            self.running = RunningNoiseScale()  # what follows is measured in another norm
        self.running.add(measured.noise_scale, samples=self._since, reference=self.reference)
        self._since = 0
        self._usable = self.running.usable(self._largest)

    def to_document(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "reference": self.reference,
            "batch": self.batch,
            "progress": self.progress,
            "left_out": self._left_out,
            "moves": self._moves,
            "largest": self._largest,
            "preconditioned": self._preconditioned,
            "since": self._since,
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
        self._moves = math.floor(self.progress + _ROUNDING)
        if unit == 1.0:  # older states have none
            self._moves = document.get("moves", self._moves)
        self._largest = document["largest"]
        self._preconditioned = document["preconditioned"]
        self._since = document.get("since", 0)
        self.running = RunningNoiseScale.from_document(document["running"])
        self.running.seen *= unit
        self._usable = self.running.usable(self._largest)

    def _whole(self, batch: int) -> int:
        """Return the samples that a step of `batch` counts as: a short last one as a whole one."""
        return max(batch, min(self.reference, self._pinned or self.reference))

    def _reaches(self, progress: float) -> bool:
        return self.target is not None and progress + self._left_out >= self.target - _ROUNDING


def adam_like(optimizer: Optimizer) -> bool:
    """Whether an optimizer divides by the size of its gradients."""
    return "betas" in optimizer.defaults or isinstance(optimizer, (RMSprop, Adagrad, Adadelta))
