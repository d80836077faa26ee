"""When and by whom a stopping run is saved; time does not pass here."""

from __future__ import annotations

import signal

import pytest

from staves.engines.local._stopping import GRACE_SECONDS, Stopping

LONG = 1e6


@pytest.fixture
def said() -> list[str]:
    return []


def stopping(said: list[str], *, save_on_signal: bool = True) -> Stopping:
    return Stopping(grace=LONG, save_on_signal=save_on_signal, say=said.append)


def test_nothing_is_due_before_it_is_told(said: list[str]) -> None:
    assert stopping(said).due([1, 2], 1) is None


def test_rank_0_is_asked_once_in_a_generation(said: list[str]) -> None:
    stop = stopping(said)
    stop.tell(save=True, grace=LONG)
    assert stop.due([4, 2], 7) == 4
    assert stop.due([4, 2], 7) is None
    assert stop.due([4], 8) == 4, "its first answer may have been lost with the generation"
    assert stop.due([2, 4], 9) == 2


def test_who_was_asked_counts_also_when_another_is_asked_by_now(said: list[str]) -> None:
    """A planned change names the next rank 0 before it has taken over from this one."""
    stop = stopping(said)
    stop.tell(save=True, grace=LONG)
    assert stop.saved(4, {"saved": True}) is None
    assert (stop.due([4, 2], 7), stop.due([2, 3], 8)) == (4, 2)
    assert stop.saved(4, {"saved": True}) is True
    assert stop.saved(2, {"saved": False}) is False
    assert stop.saved(3, {"saved": True}) is None


def test_before_anybody_trains_there_is_nothing_to_save(said: list[str]) -> None:
    stop = stopping(said)
    stop.tell(save=True, grace=LONG)
    assert stop.due([], 0) == "end"


@pytest.mark.parametrize("again", [(True, 0.0), (False, LONG)], ids=["no time", "no checkpoint"])
def test_told_again_it_becomes_more_urgent(said: list[str], again: tuple[bool, float]) -> None:
    save, grace = again
    stop = stopping(said)
    stop.tell(save=True, grace=LONG)
    assert stop.due([1], 1) == 1
    stop.tell(save=save, grace=grace)
    assert stop.due([1], 1) == "end"
    stop.tell(save=True, grace=LONG)
    assert stop.due([1], 2) == "end", "and not less"


def test_signals(said: list[str]) -> None:
    stop = stopping(said)
    stop.signalled(signal.SIGINT)
    assert stop.due([1], 1) == 1
    assert len(said) == 1
    stop.signalled(signal.SIGTERM)
    assert stop.due([1], 1) == "end"
    assert stop.signal == signal.SIGINT
    stop.begin_to_end()
    assert 0 < stop.patience <= GRACE_SECONDS
    stop.signalled(signal.SIGINT)
    assert stop.patience == 0.0


def test_a_signal_without_a_checkpoint_folder_ends(said: list[str]) -> None:
    stop = stopping(said, save_on_signal=False)
    stop.signalled(signal.SIGTERM)
    assert stop.due([1], 1) == "end"
    assert said == []
