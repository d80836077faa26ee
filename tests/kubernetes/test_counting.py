from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.kubernetes import Group, groups_of


def test_by_default_the_minimum_of_any_type() -> None:
    groups = groups_of(None, minimum=3, maximum=6, types=("a100", "t4"), mix=True)
    assert groups == (Group("worker", ("a100", "t4"), 3),)
    assert groups_of(None, minimum=1, maximum=None, types=None, mix=True) == (
        Group("worker", (), 1),
    )


def test_one_type_gives_its_name() -> None:
    assert groups_of("2", minimum=1, maximum=2, types=("A100 x",), mix=False) == (
        Group("a100-x", ("A100 x",), 2),
    )


@given(st.dictionaries(st.sampled_from(["a100", "v100", "t4"]), st.integers(1, 99), min_size=1))
def test_counts_by_type(counts: dict[str, int]) -> None:
    text = ",".join(f"{name}={number}" for name, number in counts.items())
    groups = groups_of(text, minimum=1, maximum=None, types=None, mix=True)
    assert {group.types[0]: group.count for group in groups} == counts
    assert [group.name for group in groups] == list(counts)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        ("1", "below the job's devices.min (2)"),
        ("a100=1", "below the job's devices.min (2)"),
        ("9", "above the job's devices.max (8)"),
        ("a100=5,t4=4", "above the job's devices.max (8)"),
        ("h100=2", "did you mean 'a100'"),
        ("a100=1,a100=2", "stands twice"),
        ("=3", "names no type"),
        ("a100=2,", "names no type"),
        ("a100=", "is not a number"),
        ("a100=x", "is not a number"),
        ("a100=0", "is not a number"),
        ("-4", "is not a number"),
        ("", "is not a number"),
        ("²", "is not a number"),
        ("9999999999999", "is not a number"),
        ("A_B=1,a-b=1", "have one name"),
    ],
)
def test_what_is_refused(count: str, message: str) -> None:
    types = ("a100", "t4", "A_B", "a-b")
    with pytest.raises(InputError) as refused:
        groups_of(count, minimum=2, maximum=8, types=types, mix=True)
    assert message in str(refused.value)


def test_one_type_at_a_time() -> None:
    with pytest.raises(InputError, match=r"devices\.mix"):
        groups_of("a100=1,t4=1", minimum=1, maximum=8, types=None, mix=False)
    with pytest.raises(InputError, match="--count a100=2"):
        groups_of("2", minimum=1, maximum=8, types=("a100", "t4"), mix=False)
    assert groups_of("1", minimum=1, maximum=8, types=("a100", "t4"), mix=False)
