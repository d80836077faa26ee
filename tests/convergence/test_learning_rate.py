from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.convergence import gain, learning_rate
from staves.errors import InputError


@given(st.floats(1, 1e5), st.floats(0, 1e6), st.sampled_from(sorted(learning_rate.RULES)))
def test_every_rule_lies_between_no_change_and_the_ratio(
    ratio: float, scale: float, name: str
) -> None:
    worth = gain(scale, 32 * ratio, 32)
    factor = learning_rate.RULES[name](worth, ratio)
    assert 1 - 1e-9 <= factor <= ratio * (1 + 1e-9)
    assert learning_rate.RULES[name](1.0, 1.0) == 1.0


def test_adascale_is_sgd_with_the_best_rate_on_a_quadratic() -> None:
    """On noisy SGD the largest useful step shrinks by |G|^2 / E|g|^2: adascale keeps that share."""
    scale, reference = 96.0, 32

    def share(batch: int) -> float:
        return 1 / (1 + scale / batch)

    for batch in (32, 64, 320):
        factor = learning_rate.adascale(gain(scale, batch, reference), batch / reference)
        assert factor == pytest.approx(share(batch) / share(reference))


def test_the_others() -> None:
    assert learning_rate.square_root(2.0, 9.0) == 3.0
    assert learning_rate.linear(2.0, 9.0) == 9.0
    assert learning_rate.constant(2.0, 9.0) == 1.0


def test_legw_warms_up_for_the_same_number_of_larger_epochs() -> None:
    assert learning_rate.legw(4.0, epochs=0, warm_up_epochs=0) == 2.0
    assert learning_rate.legw(4.0, epochs=2.0, warm_up_epochs=1.0) == 1.0
    assert learning_rate.legw(4.0, epochs=4.0, warm_up_epochs=1.0) == 2.0
    assert learning_rate.legw(1.0, epochs=0.5, warm_up_epochs=1.0) == 0.5
    with pytest.raises(InputError):
        learning_rate.legw(4.0, epochs=-1, warm_up_epochs=1)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_refuses_what_is_no_factor(bad: float) -> None:
    for rule in learning_rate.RULES.values():
        with pytest.raises(InputError):
            rule(bad, 1.0)
        with pytest.raises(InputError):
            rule(1.0, bad)
