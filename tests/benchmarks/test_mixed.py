from __future__ import annotations

import math
from typing import Any

import pytest
from benchmarks.mixed.judging import by_type, error, judged, settled
from benchmarks.mixed.measuring import CLUSTERS, MIXES, predicted, profile_of
from benchmarks.mixed.page import page
from hypothesis import given
from hypothesis import strategies as st

from staves.hardware import Configuration, first_free, read_cluster
from staves.steptime import Communication, Line, Ring, type_key

Rows = list[dict[str, Any]]


def rows(*plans: tuple[int, str, list[float]]) -> Rows:
    """Return rows of plans, each with its number, its stage, and its steps' seconds."""
    now, made = 0.0, []
    for number, stage, seconds in plans:
        for each in seconds:
            now += each
            devices = ["f-0/fast-0", "s-0/slow-0"]
            split = {"plan": number, "stage": stage, "local_batches": [64 + number, 32 - number]}
            made.append({"at": now, "devices": devices, "predicted_seconds": 0.2, **split})
    return made


def test_steps_just_after_a_change_do_not_count() -> None:
    measured = settled(
        rows(
            (0, "even", [0.9] * 5),
            (1, "optimal", [7.0, 8.0, 0.2, 0.3]),
            (2, "optimal", [9.0, 5.0, 0.4]),
        )
    )
    assert measured.seconds == pytest.approx((0.2, 0.3, 0.4))
    assert measured.median == pytest.approx(0.3)
    assert measured.local_batches == {"fast": [66], "slow": [30]}
    with pytest.raises(ValueError, match="no step is left"):
        settled(rows((0, "even", [0.9] * 5), (1, "optimal", [0.1, 0.2])))


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c-d"]), st.integers(0, 9)), max_size=9))
def test_samples_stand_by_type(pairs: list[tuple[str, int]]) -> None:
    found = by_type(pairs)
    assert sorted((kind, n) for kind, own in found.items() for n in own) == sorted(pairs)
    assert all(own == sorted(own, reverse=True) for own in found.values())


def case(*mixes: tuple[float, float, float]) -> dict[str, Any]:
    """Return a cluster's figures: seconds predicted, predicted by the last ring, and measured."""
    return {
        "links_bits_per_second": {"fast": 1e9, "slow": 2e8},
        "void": False,
        "void_runs": 0,
        "alone": {"2xfast": one(0.2, 0.2, 0.2)},
        "mixes": {f"{i + 1}xfast+1xslow": one(*mix) for i, mix in enumerate(mixes)},
    }


def one(predicted: float, last: float, measured: float) -> dict[str, Any]:
    return {
        "predicted_seconds": predicted,
        "trainer_predicted_seconds": predicted,
        "last_ring_seconds": last,
        "measured_seconds": measured,
        "quartiles_seconds": [measured, measured],
        "steps": 9,
        "local_batches": {"fast": [64], "slow": [32]},
    }


def test_errors_are_over_the_measured_step() -> None:
    cases = {"x": case((0.192, 0.1, 0.2), (0.26, 0.5, 0.25)), "y": case((0.4, 0.4, 0.5))}
    assert error(cases["x"]["mixes"]["1xfast+1xslow"]) == pytest.approx(-0.04)
    found = judged(cases)
    assert found["mixes"] == 3
    assert found["errors"]["predicted"] == pytest.approx({"median": 0.04, "worst": 0.2})
    assert found["errors"]["last_ring"] == pytest.approx({"median": 0.5, "worst": 1.0})
    assert found["within"] == 2
    text = page({"clusters": cases, "batch": 96, "steps": 9, **found})
    assert (
        "| x | fast 1 Gbit/s, slow 200 Mbit/s | 1xfast+1xslow | fast 64; slow 32 | 192.0 ms" in text
    )


@pytest.mark.parametrize("name", MIXES)
def test_the_clusters_hold_what_is_measured_on_them(name: str) -> None:
    cluster = read_cluster(CLUSTERS / f"{name}.yaml")
    assert cluster.fully_emulated
    assert len({node.link_bits_per_second for node in cluster.nodes}) > 1
    kinds = {kind: Configuration({kind: 2}) for kind in cluster.configuration}
    before: set[str] = set()
    for mix in [*kinds.values(), *map(Configuration.parse, MIXES[name])]:
        allocation = first_free(cluster, mix)
        if mix.mixed:
            assert not before or before & set(allocation.names)  # someone has the state
            before = set(allocation.names)


def test_what_is_predicted_is_what_policies_see() -> None:
    """Free computing: a step takes as long as the gradients on the slowest ring of the mix."""
    line = [[0.0, 1e-9, 0.0]] * 2
    rings = [
        Ring((kind,), (f"{kind}-0", f"{kind}-1"), 2, Communication((1.0,), (seconds,)), 9.0)
        for kind, seconds in (("fast", 0.3), ("slow", 0.1))
    ]
    knowledge = {
        "lines": {type_key("fast"): line, type_key("slow"): line},
        "rings": [ring.to_document() for ring in rings],
    }
    profile = profile_of(knowledge, read_cluster(CLUSTERS / "fast_on_slow.yaml"))
    assert profile.lines["fast"] == (Line(0.0, 1e-9), Line(0.0, 1e-9))
    for mix, expected in (("2xslow", 0.1), ("1xfast+1xslow", 0.3), ("2xfast+2xslow", 0.45)):
        assert math.isclose(predicted(profile, mix), expected, rel_tol=1e-4)
