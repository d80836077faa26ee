"""The room's face: names that load with their first use."""

from __future__ import annotations

import pytest

from staves import service


def test_it_has_what_it_lists() -> None:
    for name in service.__all__:
        assert getattr(service, name).__module__.startswith("staves.service.") or name == "Document"
        assert name in dir(service)


def test_it_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = service.nothing
