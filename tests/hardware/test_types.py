from __future__ import annotations

import math

import pytest

from staves.errors import InputError
from staves.hardware import KNOWN_TYPES, DeviceProfile, DeviceType, Pace, known_type


def test_a_pace_is_a_line_with_a_floor() -> None:
    pace = Pace(0.5, 0.25, floor=1.0)
    assert [pace.seconds(batch) for batch in (0, 2, 4)] == [1.0, 1.0, 1.5]


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_times_are_finite_and_not_negative(wrong: float) -> None:
    for times in ((wrong, 0.0, 0.0), (0.0, wrong, 0.0), (0.0, 0.0, wrong)):
        with pytest.raises(InputError, match="must be finite"):
            Pace(*times)


def test_a_profile_adds_both_passes() -> None:
    profile = DeviceProfile(Pace(1.0, 0.5), Pace(2.0, 0.25))
    assert profile.seconds(4) == 1 + 2 + 2 + 1


@pytest.mark.parametrize(("largest", "smallest"), [(0, 0), (3, 4), (-1, 0), (None, -1)])
def test_bounds_of_the_batch(largest: int | None, smallest: int) -> None:
    with pytest.raises(InputError, match="_batch"):
        DeviceProfile(Pace(1, 0), Pace(0, 0), largest, smallest)


def test_a_profile_without_any_time_is_refused() -> None:
    nothing = Pace(0, 0)
    with pytest.raises(InputError, match="all times are zero"):
        DeviceProfile(nothing, nothing)
    for some in (Pace(0, 0, 0.1), Pace(0, 0.1), Pace(0.1, 0)):
        assert DeviceType("x", None, DeviceProfile(nothing, some)).emulated


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a+b", "-a", ".a", "a\n", "é"])
def test_names_of_types(name: str) -> None:
    with pytest.raises(InputError, match="is not a name"):
        DeviceType(name)


def test_known_types() -> None:
    for name, device_type in KNOWN_TYPES.items():
        assert device_type.name == name
        assert not device_type.emulated
        assert (device_type.memory_bytes is None) == (name == "local-cpu")
    assert known_type("a100").memory_bytes == 40 * 10**9
    names = "local-cpu t4 rtx2080ti rtx3080 rtx3090 rtx4090 rtx6000 a4000 a5000 a6000 p100 k80 v100"
    names += " a10 a30 a40 l4 l40s a100 a100-80gb h100 h200 b200 mi210 mi250 mi300x"
    for name in names.split():
        assert known_type(name)
    with pytest.raises(InputError, match=r"unknown device type 'a100x' \(did you mean 'a100'\?\)"):
        known_type("a100x")
