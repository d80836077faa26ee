"""The total batch, as a user asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from staves.errors import InputError
from staves.training._arguments import positive_integer

LearningRateRule = Literal["auto", "adascale", "square-root", "linear", "none"]


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A total batch that may grow with the gradient noise, from `reference` up to `max` samples.

    The reference batch is the one the learning rate was chosen for. It is the unit of progress,
    too: `len(loader)` counts reference batches.

    Args:
        reference: samples.
        max: samples; None: the size of the data set.
        learning_rate: how the learning rate follows the batch
            (`staves.convergence.learning_rate`): "auto" is "adascale" for SGD and "square-root" for
            Adam and its like; "none" leaves it alone.

    Raises:
        InputError: `reference` is not a positive integer, `max` is below it, or there is no such
            rule.
    """

    reference: int
    max: int | None = None
    learning_rate: LearningRateRule = "auto"

    def __post_init__(self) -> None:
        positive_integer("Adaptive.reference", self.reference)
        if self.max is not None:
            positive_integer("Adaptive.max", self.max)
            if self.max < self.reference:
                raise InputError(
                    f"Adaptive.max: {self.max} is below the reference batch {self.reference}",
                    hint="the batch grows from the reference up to max",
                )
        if self.learning_rate not in get_args(LearningRateRule):
            raise InputError(
                f"Adaptive.learning_rate: {self.learning_rate!r} is no rule",
                hint="one of " + ", ".join(get_args(LearningRateRule)),
            )
