"""What is said of the total batch: once, and again where it is news."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import staves
from staves.convergence import NoiseScale
from staves.training._adaptation import Adaptation
from staves.training._batch_choice import Verdict
from staves.training._noise import Measured
from staves.training._planner import Plan
from staves.training._teller import Teller


class Heard:
    """A channel that keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str, **_: Any) -> None:
        self.lines.append(text)


def test_why_the_batch_stays_is_said_once() -> None:
    heard = Heard()
    teller = Teller(heard)  # type: ignore[arg-type]
    adaptation = Adaptation(staves.Adaptive(32))
    plan = Plan(1, "optimal", (40, 24), noise_scale=0.0)
    for step in (5, 10):
        teller.plan(plan, adaptation, step=step, changed=False)
    assert heard.lines == ["step 5: batch stays 64; noise scale not known yet"]
    for step in range(20):
        adaptation.committed(32, Measured(NoiseScale(1.0, 64 + 1e-6 * step), 32, False))
    heard.lines.clear()
    stays = replace(plan, verdict=Verdict(64, 64, 96, 1.03, 512))
    teller.plan(stays, adaptation, step=20, changed=False)
    wobbles = replace(plan, verdict=Verdict(64, 64, 97, 1.04, 512))
    teller.plan(wobbles, adaptation, step=40, changed=False)
    assert heard.lines == ["step 20: batch stays 64: 96 would gain 3 %; noise scale 64"]
    grown = Plan(2, "optimal", (60, 36), noise_scale=64.0, verdict=Verdict(64, 96, 96, 1.06, 512))
    teller.plan(grown, adaptation, step=60)
    assert heard.lines[-1] == (
        "step 60: batch 64 -> 96: 6 % more goodput; optimal split 60,36; noise scale 64"
    )
    kept = replace(grown, verdict=Verdict(96, 96, 99, 1.01, 512))
    teller.plan(kept, adaptation, step=65, changed=False)
    assert heard.lines[-1] == "step 65: batch stays 96: 99 would gain 1 %; noise scale 64"
