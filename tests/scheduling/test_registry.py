from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from staves.errors import InputError, StavesError
from staves.scheduling import Fifo, Heet, Srtf, _registry, policies, policy


class Third(Fifo):
    name = "third"


def bring(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    points = EntryPoints([EntryPoint(name, value, _registry.GROUP)])
    monkeypatch.setattr(_registry, "entry_points", lambda group: points.select(group=group))


def test_own_policies_by_name() -> None:
    own = {"fifo": Fifo, "srtf": Srtf, "heet": Heet}
    assert own.items() <= policies().items()
    assert all(name == own.name for name, own in policies().items())
    assert isinstance(policy("heet"), Heet)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'heet'"):
        policy("heat")


def test_other_packages_bring_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    bring(monkeypatch, "third", f"{__name__}:Third")
    monkeypatch.setattr(EntryPoint, "load", lambda self: Third)
    assert isinstance(policy("third"), Third)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("broken", "no.such.module:Nothing", "does not load"),
        ("odd", "math:pi", "is no policy"),
        ("fifo", "staves.scheduling:Srtf", "taken"),
    ],
)
def test_what_they_bring_is_checked(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    bring(monkeypatch, name, value)
    with pytest.raises(StavesError, match=message):
        policies()
