from __future__ import annotations

from staves.documents import suggestion


def test_the_nearest_word() -> None:
    assert suggestion("nmae", ["name", "count"]) == "did you mean 'name'?"
    assert suggestion("RTX4090", ["rtx3090", "rtx4090"]) == "did you mean 'rtx4090'?"


def test_no_near_word() -> None:
    assert suggestion("zzz", ["name", "count"]) == "known: count, name"
    assert suggestion("zzz", []) == "nothing is known here"
    assert suggestion("zzz", [f"word{n}" for n in range(40)]).startswith("40 are known, nearest: ")
