"""One rank decides, all ranks adopt: the only way in which a plan changes."""

from __future__ import annotations

from staves.steptime import StepTimeModel
from staves.training._exchange import Exchange
from staves.training._planner import Plan, Planner
from staves.training._timing import StepRecord


def decide_together(
    planner: Planner,
    exchange: Exchange | None,
    records: list[StepRecord],
    noise_scale: float | None,
    step: int,
) -> bool:
    """Gather what was measured, decide on rank 0, and adopt it on all ranks; say if it is new.

    Args:
        planner: this rank's.
        exchange: between the ranks; None for a process that is alone.
        records: this rank's.
        noise_scale: in samples, where the total batch adapts.
        step: the one that the decision comes before.

    Raises:
        Interrupted: the generation broke meanwhile; nothing is adopted.
    """

    def decide(gathered: list[list[StepRecord]]) -> tuple[Plan, StepTimeModel | None]:
        return planner.decide(gathered, noise_scale)

    plan, model = decide([records]) if exchange is None else exchange.agree(records, decide)
    return planner.adopt(plan, step, model)
