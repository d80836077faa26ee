"""Pauses are learned from what spans and grants tell."""

from __future__ import annotations

from staves.service._pauses import Pauses


def test_a_guess_serves_until_something_has_been_seen() -> None:
    pauses = Pauses(start=5.0, resize=0.5, delay=4.0)
    assert (pauses.start, pauses.resize, pauses.delay) == (5.0, 0.5, 4.0)
    pauses.started(9.0)
    pauses.in_force(-1.0)  # a clock that was set back
    assert (pauses.start, pauses.resize, pauses.delay) == (9.0, 0.5, 0.0)


def test_each_change_counts_once_its_first_step_is_done() -> None:
    pauses = Pauses(resize=0.5)
    spans: list[dict[str, float | None]] = [{"pause_seconds": None}]
    assert pauses.stood_still(spans, 0) == 1
    spans.append({"pause_seconds": None})
    assert pauses.stood_still(spans, 1) == 1
    assert pauses.resize == 0.5
    spans[1] = {"pause_seconds": 0.2}
    spans.append({"pause_seconds": None})
    assert pauses.stood_still(spans, 1) == 2
    assert pauses.resize == 0.2
    spans[2] = {"pause_seconds": 0.4}
    assert pauses.stood_still(spans, 2) == 3
    assert pauses.stood_still(spans, 3) == 3
    assert pauses.resize == (0.2 + 0.4) / 2


def test_a_span_that_ended_without_a_step_tells_nothing() -> None:
    pauses = Pauses(resize=0.5)
    spans: list[dict[str, float | None]] = [{}, {"pause_seconds": None}, {"pause_seconds": 0.3}]
    assert pauses.stood_still(spans, 0) == 3
    assert pauses.resize == 0.3


def test_only_the_last_ones_count() -> None:
    pauses = Pauses(keep=2)
    for seconds in (100.0, 1.0, 3.0):
        pauses.started(seconds)
    assert pauses.start == 2.0
