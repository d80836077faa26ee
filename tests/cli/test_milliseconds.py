"""Short times, as tables show them."""

from __future__ import annotations

import pytest

from staves.cli._service import milliseconds


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, None),
        ({"p50": None}, None),
        ({"p50": 0.25}, "250 ms"),
        (0.0000125, "0.0125 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (3.04, "3.04 s"),
    ],
)
def test_from_a_second_on_it_is_seconds(seconds: float | None, shown: str | None) -> None:
    assert milliseconds(seconds) == shown
