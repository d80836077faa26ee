from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import JobView
from staves.scheduling._configurations import allowed, permitted
from staves.testing import Scaling


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_one_configuration_is_judged_as_many_are(seed: int) -> None:
    draw = np.random.default_rng(seed)
    minimum = int(draw.integers(0, 4))
    job = JobView(
        "j",
        0.0,
        Scaling((1.0, 1.0, 1.0)),
        minimum=minimum,
        maximum=minimum + int(draw.integers(0, 4)),
        types=frozenset({0, 2}) if draw.random() < 0.5 else None,
        mix=bool(draw.random() < 0.5),
    )
    table = draw.integers(0, 4, (20, 3)) * (draw.random((20, 3)) < 0.5)
    assert permitted(job, table).tolist() == [allowed(job, tuple(row)) for row in table.tolist()]
