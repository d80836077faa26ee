from __future__ import annotations

from staves.scheduling import Heet, View


def nobody_is_envious(view: View) -> None:
    """See that no job would rather have another option at its price, but for what the decision
    misses of its bound."""
    decision = Heet().decide(view)
    assert decision.value is not None
    assert decision.bound is not None
    missing = decision.bound - decision.value
    for job in view.jobs:
        reason = decision.reasons[job.id]
        if job.pinned:
            continue
        mine = reason.chosen
        had = 0.0 if mine is None else mine.utility - (mine.price or 0.0)
        for other in reason.alternatives:
            assert other.price is not None
            assert other.utility - other.price <= had + missing + 1e-6 * decision.bound
