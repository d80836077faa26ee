from __future__ import annotations

import numpy as np
from even_policy import Even

from staves.scheduling import JobView, Policy, View
from staves.testing import PolicyConformance, Scaling


class TestConformance(PolicyConformance):
    work_conserving = False  # a job is on one type: what is left of several may idle

    def policy(self) -> Policy:
        return Even()


def test_all_have_as_many() -> None:
    jobs = tuple(JobView(f"job-{i}", 0.0, Scaling((1.0,)), maximum=9) for i in range(3))
    chosen = Even().decide(View(0.0, ("a100",), (8,), ((8,),), jobs)).chosen
    assert sorted(np.ravel(list(chosen.values()))) == [2, 3, 3]
