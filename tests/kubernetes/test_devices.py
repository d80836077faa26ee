from __future__ import annotations

import pytest

from staves.hardware import KNOWN_TYPES, device_type_from_name
from staves.kubernetes._devices import PRODUCT_LABEL, node_labels, resource_of

NVIDIA = [name for name in KNOWN_TYPES if resource_of(name) == "nvidia.com/gpu"]


def products(name: str) -> tuple[str, ...]:
    return node_labels((name,), {})[PRODUCT_LABEL]


@pytest.mark.parametrize("name", NVIDIA)
def test_a_product_is_of_the_type_that_it_stands_for(name: str) -> None:
    for product in products(name):
        assert device_type_from_name(product.replace("-", " ")) == name


def test_a_product_stands_for_one_type() -> None:
    every = [product for name in NVIDIA for product in products(name)]
    assert len(set(every)) == len(every)


def test_resources_by_maker() -> None:
    assert resource_of("mi300x") == "amd.com/gpu"
    assert resource_of("mine") == "nvidia.com/gpu"
    assert resource_of("local-cpu") is None


def test_any_of_several_types() -> None:
    assert node_labels(("t4", "v100"), {}) == {PRODUCT_LABEL: products("t4") + products("v100")}
    assert node_labels((), {}) == {}
