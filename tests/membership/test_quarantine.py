from __future__ import annotations

import pytest

from staves.membership import Quarantine


def test_rule_10_three_failures_within_ten_minutes_close_the_node() -> None:
    quarantine = Quarantine()
    for now in (0.0, 100.0):
        quarantine.failed("a/0", now)
        assert quarantine.allows("a/1", now)
    quarantine.failed("a/1", 200.0)
    assert not quarantine.allows("a/0", 599.0)
    assert quarantine.until("a/0") == 600.0
    assert quarantine.allows("a/0", 600.0)
    assert quarantine.allows("b/0", 200.0)


def test_failures_far_apart_close_nothing() -> None:
    quarantine = Quarantine(limit=2, within=10.0)
    for now in (0.0, 10.0, 20.0):
        quarantine.failed("a", now)
        assert quarantine.allows("a", now)


@pytest.mark.parametrize(("limit", "within"), [(0, 1.0), (1, 0.0)])
def test_a_quarantine_that_means_nothing_is_refused(limit: int, within: float) -> None:
    with pytest.raises(ValueError):
        Quarantine(limit, within)
