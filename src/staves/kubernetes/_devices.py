"""How a cluster names devices: the resource that a pod asks for, and the labels of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from staves.errors import InputError, quoted
from staves.hardware import LOCAL_CPU

PRODUCT_LABEL = "nvidia.com/gpu.product"
"""The node label in which NVIDIA's GPU feature discovery puts the product name."""

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
"""Extended resources, as the vendors' device plugins name them."""

# Product names as GPU feature discovery writes them: the driver's, with dashes for spaces.
_PRODUCTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "k80": ("Tesla-K80",),
        "p4": ("Tesla-P4",),
        "p40": ("Tesla-P40",),
        "p100": ("Tesla-P100-PCIE-16GB", "Tesla-P100-SXM2-16GB"),
        "v100": (
            "Tesla-V100-PCIE-16GB",
            "Tesla-V100-PCIE-32GB",
            "Tesla-V100-SXM2-16GB",
            "Tesla-V100-SXM2-32GB",
            "Tesla-V100-SXM3-32GB",
        ),
        "t4": ("Tesla-T4",),
        "a2": ("NVIDIA-A2",),
        "a10": ("NVIDIA-A10",),
        "a10g": ("NVIDIA-A10G",),
        "a16": ("NVIDIA-A16",),
        "a30": ("NVIDIA-A30",),
        "a40": ("NVIDIA-A40",),
        "a100": ("NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-40GB"),
        "a100-80gb": ("NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-SXM4-80GB"),
        "l4": ("NVIDIA-L4",),
        "l40": ("NVIDIA-L40",),
        "l40s": ("NVIDIA-L40S",),
        "h100": ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-NVL", "NVIDIA-H100-PCIe"),
        "h200": ("NVIDIA-H200", "NVIDIA-H200-NVL"),
        "h20": ("NVIDIA-H20",),
        "gh200": ("NVIDIA-GH200-480GB",),
        "b200": ("NVIDIA-B200",),
        "b300": ("NVIDIA-B300",),
        "a4000": ("NVIDIA-RTX-A4000",),
        "a4500": ("NVIDIA-RTX-A4500",),
        "a5000": ("NVIDIA-RTX-A5000",),
        "a6000": ("NVIDIA-RTX-A6000",),
        "rtx6000": ("Quadro-RTX-6000",),
        "rtx8000": ("Quadro-RTX-8000",),
        "rtx6000-ada": ("NVIDIA-RTX-6000-Ada-Generation",),
        "gtx1080ti": ("NVIDIA-GeForce-GTX-1080-Ti",),
        "rtx2080": ("NVIDIA-GeForce-RTX-2080",),
        "rtx2080ti": ("NVIDIA-GeForce-RTX-2080-Ti",),
        "rtx3060": ("NVIDIA-GeForce-RTX-3060",),
        "rtx3070": ("NVIDIA-GeForce-RTX-3070",),
        "rtx3080": ("NVIDIA-GeForce-RTX-3080",),
        "rtx3080ti": ("NVIDIA-GeForce-RTX-3080-Ti",),
        "rtx3090": ("NVIDIA-GeForce-RTX-3090",),
        "rtx3090ti": ("NVIDIA-GeForce-RTX-3090-Ti",),
        "rtx4070": ("NVIDIA-GeForce-RTX-4070",),
        "rtx4080": ("NVIDIA-GeForce-RTX-4080",),
        "rtx4090": ("NVIDIA-GeForce-RTX-4090",),
        "rtx5080": ("NVIDIA-GeForce-RTX-5080",),
        "rtx5090": ("NVIDIA-GeForce-RTX-5090",),
    }
)

Selectors = Mapping[str, Mapping[str, tuple[str, ...]]]
"""By device type: the node labels that mean it, and the values of each that do."""


def resource_of(device_type: str) -> str | None:
    """Return the extended resource of a device type; None for shares of a CPU."""
    if device_type == LOCAL_CPU:
        return None
    return AMD if device_type.startswith("mi") and device_type[2:3].isdigit() else NVIDIA


def resource_for(types: tuple[str, ...]) -> str | None:
    """Return the extended resource of pods that any of `types` serves; of none: NVIDIA's.

    Raises:
        InputError: there is no one resource that all of them are.
    """
    resources = {resource_of(name) for name in types} or {NVIDIA}
    if len(resources) > 1:
        raise InputError(
            f"devices.types: {', '.join(types)} are not one resource, so no pod asks for any of"
            " them",
            hint=f"say how many of each: --count {types[0]}=1,{types[-1]}=1",
        )
    return resources.pop()


def node_labels(types: tuple[str, ...], selectors: Selectors) -> dict[str, tuple[str, ...]]:
    """Return the labels, with the values of each, of the nodes that have any of `types`.

    Args:
        types: device types; none: any node.
        selectors: what the cluster's own labels are, before what is known here.

    Raises:
        InputError: a type's label is not known, or two types go by different labels.
    """
    if all(name == LOCAL_CPU and name not in selectors for name in types):
        return {}
    each = [_labels_of(name, selectors) for name in types]
    if len(each) == 1:
        return dict(each[0])
    if any(len(labels) != 1 for labels in each) or len({next(iter(one)) for one in each}) > 1:
        raise InputError(
            f"devices.types: {', '.join(types)} go by different node labels, and any of them is"
            " wanted",
            hint=f"say how many of each: --count {types[0]}=1,{types[-1]}=1",
        )
    (key,) = each[0]
    return {key: tuple(value for labels in each for value in labels[key])}


def _labels_of(name: str, selectors: Selectors) -> Mapping[str, tuple[str, ...]]:
    if name in selectors:
        return selectors[name]
    if name not in _PRODUCTS:
        raise InputError(
            f"device type {quoted(name)}: what its nodes are labelled with is not known",
            hint=f"say it: --select {name}:{PRODUCT_LABEL}=PRODUCT",
        )
    return {PRODUCT_LABEL: _PRODUCTS[name]}
