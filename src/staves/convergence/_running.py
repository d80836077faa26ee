"""The noise scale averaged over steps, with an interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from staves.convergence.noise_scale import NoiseScale

SHARE = 1.0
"""The memory of the averages, as a share of all samples so far."""
SHORTEST, LONGEST = 20.0, 1000.0
"""The least and the most that they remember, in reference batches."""
GROWTH = 8.0
"""How far beyond the largest batch tried the noise scale is believed."""

_MOST_FORGOTTEN = 0.9  # the least decay: ten steps count, however large their batches are
_NORMAL_QUANTILE = 1.959964  # 97.5 % of a normal distribution: two-sided 95 %


@dataclass(slots=True)
class RunningNoiseScale:
    """Exponential averages of |G|^2 and of tr(Sigma), each by itself, and of how they vary.

    A step weighs 1 when it comes, and what it weighs falls by theta with every later one, theta =
    (1 - 1 / m)^(samples / reference): the memory m is counted in reference batches, not in steps.
    It grows with those seen so far, so that weights rise linearly (polynomial-decay averaging:
    Shamir and Zhang, ICML 2013): the noise scale changes fast at first and slowly later. The
    averages are divided by the sum of weights, which is the bias correction of Adam (Kingma and
    Ba, 2015, section 3). Their ratio is consistent where the average of one step's ratios is not.

    The interval is Fieller's ("Some Problems in Interval Estimation", 1954) for a ratio of means:
    all phi whose tr(Sigma) - phi |G|^2 differs from 0 by no more than its error. That error comes
    from the weighted sample variances and the covariance of the two, times sum w^2 / (sum w)^2,
    steps counted as independent, with Student's quantile for (sum w)^2 / sum w^2 steps. Where
    |G|^2 does not differ from 0 the interval has no upper end.
    """

    FEWEST_STEPS: ClassVar[float] = 5.0
    """Steps in the average (effectively) below which nothing is known of its error."""

    seen: float = 0.0
    weight: float = 0.0
    weight_square: float = 0.0
    gradient_square: float = 0.0
    noise: float = 0.0
    square_variation: float = 0.0
    noise_variation: float = 0.0
    covariation: float = 0.0

    def add(self, step: NoiseScale, *, samples: float, reference: float) -> None:
        """Take in one step's estimate; `samples` were trained since the one before, its own
        included."""
        self.seen += samples / reference
        memory = min(max(SHORTEST, SHARE * self.seen), LONGEST)
        decay = max(_MOST_FORGOTTEN, (1 - 1 / memory) ** (samples / reference))
        self.weight = decay * self.weight + 1
        self.weight_square = decay**2 * self.weight_square + 1
        square, noise = step.gradient_square - self.gradient_square, step.noise - self.noise
        self.gradient_square += square / self.weight
        self.noise += noise / self.weight
        left = step.noise - self.noise
        self.square_variation = decay * self.square_variation + square * (
            step.gradient_square - self.gradient_square
        )
        self.noise_variation = decay * self.noise_variation + noise * left
        self.covariation = decay * self.covariation + square * left

    @property
    def steps(self) -> float:
        """How many equally weighted steps would tell as much."""
        return self.weight**2 / self.weight_square if self.weight else 0.0

    @property
    def noise_error(self) -> float:
        """The relative standard error of tr(Sigma); inf where nothing is known of it."""
        if self.steps < self.FEWEST_STEPS or self.noise <= 0:
            return math.inf
        return math.sqrt(self.noise_variation / self.weight / (self.steps - 1)) / self.noise

    @property
    def scale(self) -> float:
        """The noise scale in samples: 0 where no noise is seen, inf where the gradient drowns."""
        if self.noise <= 0:
            return 0.0
        return NoiseScale(self.gradient_square, self.noise).scale

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the scale, in samples; (0, inf) where nothing is known."""
        if self.steps < self.FEWEST_STEPS:
            return 0.0, math.inf
        freedom = self.steps - 1
        error = _student(freedom) ** 2 / freedom / self.weight  # of a mean, for its variation
        g, s = self.gradient_square, self.noise
        a = g * g - error * self.square_variation
        b = g * s - error * self.covariation
        c = s * s - error * self.noise_variation
        # The interval is where a phi^2 - 2 b phi + c <= 0.
        root = math.sqrt(max(0.0, b * b - a * c))
        if a > 0 and g > 0:
            return max(0.0, (b - root) / a), max(0.0, (b + root) / a)
        if c <= 0 or s <= 0:
            return 0.0, math.inf
        if a == 0:
            return (c / (2 * b) if b > 0 else math.inf), math.inf
        return (b - root) / a if a < 0 else math.inf, math.inf

    def usable(self, largest_batch: float) -> float:
        """Return the noise scale to act on, in samples.

        Where the interval has an upper end, the scale; elsewhere |G|^2 is not told from 0, and the
        ratio says nothing: then the interval's lower end. Never more than GROWTH times the largest
        batch tried so far; what lies far beyond the batches at hand cannot be resolved from them.
        """
        lower, upper = self.interval()
        scale = lower if math.isinf(upper) else self.scale
        return min(scale, GROWTH * largest_batch)

    def to_document(self) -> dict[str, Any]:
        """Return plain values, for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> RunningNoiseScale:
        """Return what `to_document` wrote."""
        return cls(**document)


def _student(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t.

    By its expansion about the normal quantile (Abramowitz and Stegun, 26.7.5); from 4 degrees of
    freedom on within 1 %.
    """
    z = _NORMAL_QUANTILE
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
