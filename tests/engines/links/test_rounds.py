from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from staves.engines.links import rounds_of


@given(st.integers(0, 20))
def test_every_pair_once_and_no_node_twice_in_a_round(count: int) -> None:
    nodes = [f"n{i}" for i in range(count)]
    rounds = list(rounds_of(nodes))
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert len(met) == len(set(met))
    assert set(met) == {frozenset(pair) for pair in itertools.combinations(nodes, 2)}
    for pairs in rounds:
        busy = list(itertools.chain.from_iterable(pairs))
        assert len(busy) == len(set(busy))
    if count > 1:
        assert len(rounds) == count - 1 + count % 2
