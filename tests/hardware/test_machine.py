from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.hardware import (
    KNOWN_TYPES,
    DeviceType,
    device_type_from_name,
    this_machine,
    visible_gpus,
)
from staves.hardware._machine import types_of

GIB = 2**30


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("A100-PCIE-40GB", "a100"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "a100-mig-1g.10gb"),
        ("Tesla V100-PCIE-32GB", "v100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla P100-PCIE-16GB", "p100"),
        ("Tesla T4", "t4"),
        ("Tesla K80", "k80"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("GeForce GTX 1080 Ti", "gtx1080ti"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx2080ti"),
        ("NVIDIA GeForce RTX 3080", "rtx3080"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "rtx3080-laptop"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070ti-super"),
        ("Quadro RTX 6000", "rtx6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("NVIDIA RTX A4000", "a4000"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA TITAN V", "titan-v"),
        ("AMD Instinct MI210", "mi210"),
        ("AMD Instinct MI250X / MI250", "mi250x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Radeon Graphics", "radeon"),
        ("Some New Thing (rev 2)", "some-new-thing-rev-2"),
        ("", "gpu"),
    ],
)
def test_types_from_product_names(product: str, name: str) -> None:
    assert device_type_from_name(product) == name


def test_a_type_is_its_own_name() -> None:
    for name in KNOWN_TYPES:
        assert device_type_from_name(name) == name


@given(st.text() | st.from_regex(r"\A(NVIDIA|rtx|MIG|\.|-|A100|Ti| / |[0-9.]){0,8}\Z"))
def test_every_name_gives_a_legal_type(product: str) -> None:
    DeviceType(device_type_from_name(product))


def test_gpus_of_one_name_and_unlike_memory_are_two_types() -> None:
    types = types_of(
        [
            ("Tesla V100-SXM2-16GB", 16 * GIB),
            ("Tesla V100-SXM2-32GB", 32 * GIB),
            ("Tesla V100-SXM2-16GB", 16 * GIB - 1000),
        ]
    )
    assert [one.name for one in types] == ["v100", "v100-32gb", "v100"]
    assert types[0] is types[2]
    assert types[1].memory_bytes == 32 * GIB


def test_a_machine_without_torch_is_one_cpu_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    machine = this_machine()
    assert str(machine.configuration) == "1xlocal-cpu"
    assert not machine.emulated


def test_gpus_are_counted_by_type(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = types_of([("Tesla T4", 15 * GIB), ("NVIDIA A10", 23 * GIB), ("Tesla T4", 15 * GIB)])
    monkeypatch.setattr("staves.hardware._machine.visible_gpus", lambda: gpus)
    machine = this_machine()
    assert [device.name for device in machine.devices()] == [
        "node-0/t4-0",
        "node-0/t4-1",
        "node-0/a10-0",
    ]
    assert machine.types["t4"].memory_bytes == 15 * GIB


def test_gpus_come_in_the_order_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    found = [
        SimpleNamespace(name=f"NVIDIA {name}", total_memory=24 * GIB) for name in ("L4", "A10")
    ]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(found))
    monkeypatch.setattr(torch.cuda, "get_device_properties", found.__getitem__)
    assert visible_gpus() == (DeviceType("l4", 24 * GIB), DeviceType("a10", 24 * GIB))


def test_this_machine_is_what_torch_sees() -> None:
    torch = pytest.importorskip("torch")
    machine = this_machine()
    expected = torch.cuda.device_count() if torch.cuda.is_available() else 1
    assert machine.total == expected
