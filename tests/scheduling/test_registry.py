from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from staves.errors import InputError, StavesError
from staves.scheduling import (
    Decision,
    Fifo,
    Heet,
    Policy,
    Srtf,
    View,
    _registry,
    policies,
    policy,
    unusable,
)


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


class Nameless(Policy):
    def decide(self, view: View) -> Decision:
        return Decision({})


class Choosy(Fifo):
    name = "choosy"

    def __init__(self, patience: float) -> None:
        self.patience = patience


class Undecided(Policy):
    name = "undecided"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("broken", "no.such.module:Nothing", "does not load"),
        ("odd", "math:pi", "is no policy"),
        ("fourth", f"{__name__}:Third", "calls itself 'third'"),
        ("nameless", f"{__name__}:Nameless", "calls itself None"),
        ("undecided", f"{__name__}:Undecided", "has no method `decide`"),
        ("choosy", f"{__name__}:Choosy", "is not made: TypeError"),
    ],
)
def test_what_cannot_be_used_stands_in_nobody_elses_way(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    bring(monkeypatch, name, value)
    assert isinstance(policy("fifo"), Fifo)
    with pytest.raises(StavesError, match=message):
        policy(name)
    if name != "choosy":
        assert name not in policies()
        assert message in str(unusable()[name])


def test_a_name_that_is_taken_stays_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bring(monkeypatch, "fifo", "staves.scheduling:Srtf")
    assert type(policy("fifo")) is Fifo
    assert "taken" in str(unusable()["staves.scheduling:Srtf"])


def test_damaged_metadata_of_one_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for package, text in (
        ("damaged", "[staves.policies\nno equals sign"),
        ("whole", f"[staves.policies]\nthird = {__name__}:Third\n"),
    ):
        folder = tmp_path / f"{package}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {package}\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(policy("fifo"), Fifo)
    assert policies()["third"] is Third
