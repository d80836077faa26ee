"""The benchmark of a slow link: its verdicts, its page, and what it says where it cannot run."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from benchmarks.links.__main__ import main
from benchmarks.links.judging import judged, preferred
from benchmarks.links.network import joined
from benchmarks.links.page import page, verdict

from staves.errors import InputError, StavesError


def case(predicted: list[float], measured: list[float], blind: list[float]) -> dict[str, Any]:
    places = {
        name: {
            "configuration": "2xemu",
            "predicted_seconds": p,
            "measured_seconds": m,
            "without_link_seconds": b,
        }
        for name, p, m, b in zip(("one node", "two nodes"), predicted, measured, blind, strict=True)
    }
    return {
        "width": 256,
        "batch": 64,
        "gradient_bytes": 1_600_000,
        "one_node_ring_seconds": 0.005,
        "places": places,
        "void": False,
        "void_runs": 1,
        "load": 1.5,
    }


CASES = [
    case([0.3, 0.22], [0.3, 0.2], [0.3, 0.19]),  # 10 % off is within 10 %
    case([0.3, 0.7], [0.33, 0.5], [0.3, 0.2]),
]


def document() -> dict[str, Any]:
    samples = [[65536, 0.0026], [4194304, 0.177]]
    link = {"bits_per_second": 1.9e8, "latency_seconds": 1e-4, "samples": samples, "load": 1.0}
    about = {"emulated": True, "steps": 40, "shaped_bits_per_second": 2e8, "link": link}
    return {**about, "cases": CASES, **judged(CASES)}


def test_verdicts() -> None:
    assert [preferred(each, "predicted") for each in CASES] == ["two nodes", "one node"]
    found = judged(CASES)
    assert (found["steps_predicted"], found["void"]) == (4, False)
    own, blind = (found["ways"][way] for way in ("predicted", "without_link"))
    assert own["worst"] == pytest.approx(0.4)
    assert own["median"] == pytest.approx((0.1 + 0.03 / 0.33) / 2)
    assert own["within"] == 3
    assert (own["preferred_rightly"], blind["preferred_rightly"]) == (2, 1)
    assert judged([{**CASES[0], "void": True}])["void"]


def test_the_page_tells_all() -> None:
    text = page(document())
    assert "| 1.6 MB | 64 | two nodes | 700.0 ms | 500.0 ms | +40.0% | 200.0 ms |  |  |" in text
    assert (
        "| 1.6 MB | 64 | two nodes | 220.0 ms | 200.0 ms | +10.0% | 190.0 ms | yes | yes |" in text
    )
    assert "shaped to\n200 Mbit/s each way" in text
    assert "Found: **190 Mbit/s**, latency 0.10 ms" in text
    assert verdict(document()) in text
    assert "3 of 4 steps are predicted within 10%" in text
    assert "preferred in 2 of 2 cases" in text
    assert "made again: 2." in text
    assert "(void)" not in text
    late = {**CASES[0], "void": True}
    text = page({**document(), "cases": [late], **judged([late])})
    assert "| 200.0 ms (void) | +10.0% |" in text
    assert "void, too" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--steps", "0"], "--steps: 0"),
        (["--megabits", "0"], "--megabits: 0"),
        (["--megabits", "nan"], "--megabits: nan"),
        (["--width", "3"], "no case has that width"),
    ],
)
def test_what_is_refused(monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks.links", *arguments])
    with pytest.raises(InputError, match=said):
        main()


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(StavesError, match="network namespaces need root"), joined(200):
        pass


def test_a_kernel_without_shaping_is_told_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def run(words: list[str], **_: object) -> None:
        line = " ".join(words)
        made.append(line)
        if words[0] == "tc":
            said = "Error: Specified qdisc kind is unknown.\n"
            raise subprocess.CalledProcessError(2, words, stderr=said)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(StavesError, match="qdisc kind is unknown") as caught, joined(200):
        pass
    assert len(str(caught.value).splitlines()) == 1

    def names(verb: str) -> set[str]:
        words = [line.split() for line in made if f" {verb} " in line and "addr" not in line]
        return {each[each.index(verb) + 1] for each in words if each[0] == "ip"}

    assert names("add") == names("del") != set()
