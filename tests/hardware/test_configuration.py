from __future__ import annotations

import copy
import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.hardware import Configuration

counts = st.dictionaries(st.sampled_from(["a100", "t4", "v100", "2x", "x-3.b"]), st.integers(0, 9))
configurations = counts.map(Configuration)


def test_canonical_order_and_text() -> None:
    configuration = Configuration({"t4": 1, "h100": 0, "a100": 2})
    assert str(configuration) == "2xa100+1xt4"
    assert list(configuration) == ["a100", "t4"]
    assert configuration.types == ("a100", "t4")
    assert configuration.total == 3
    assert configuration.mixed
    assert configuration.single_type is None
    assert configuration.count("h100") == 0
    assert repr(configuration) == "Configuration({'a100': 2, 't4': 1})"
    with pytest.raises(KeyError):
        configuration["h100"]


def test_none_and_single() -> None:
    nothing, one = Configuration(), Configuration({"t4": 4})
    assert (str(nothing), nothing.total, nothing.mixed, nothing.single_type) == ("none", 0, 0, None)
    assert (one.mixed, one.single_type) == (False, "t4")
    assert not nothing


@given(configurations)
def test_text_pickle_and_copy_keep_it(configuration: Configuration) -> None:
    assert Configuration.parse(str(configuration)) == configuration
    again = pickle.loads(pickle.dumps(configuration))
    assert again == configuration
    assert hash(again) == hash(configuration)
    assert copy.deepcopy(configuration) == configuration


@given(counts)
def test_the_order_of_the_counts_does_not_matter(mapping: dict[str, int]) -> None:
    backward = dict(reversed(mapping.items()))
    assert Configuration(mapping) == Configuration(backward)
    assert hash(Configuration(mapping)) == hash(Configuration(backward))


@given(counts, counts)
def test_arithmetic_is_that_of_multisets(one: dict[str, int], other: dict[str, int]) -> None:
    first, second = Configuration(one), Configuration(other)
    assert first + second == Configuration(Counter(one) + Counter(other))
    assert (first + second) - second == first
    assert (first <= second) == (Counter(one) <= Counter(other))
    assert (first < second) == (Counter(one) < Counter(other))
    assert (first >= second) == (Counter(one) >= Counter(other))
    assert (first > second) == (Counter(one) > Counter(other))
    if not second <= first:
        with pytest.raises(InputError, match="cannot take"):
            first - second


@pytest.mark.parametrize(
    "text", ["", "a100", "2", "x2", "2x", "-1xa100", "2xa100+", "1.5xt4", "٣xt4"]
)
def test_what_is_no_configuration(text: str) -> None:
    with pytest.raises(InputError):
        Configuration.parse(text)


def test_parts_of_one_type_add_up() -> None:
    assert Configuration.parse(" 1xt4 + 2xt4+0xa100 ") == Configuration({"t4": 3})


@pytest.mark.parametrize("count", [-1, 1.0, True, None, "1"])
def test_counts_are_whole_numbers(count: int) -> None:
    with pytest.raises(InputError, match="whole number"):
        Configuration({"t4": count})


def test_it_is_immutable_and_no_dict() -> None:
    configuration = Configuration({"t4": 1})
    with pytest.raises(AttributeError):
        configuration._counts = {}
    assert configuration != {"t4": 1}
