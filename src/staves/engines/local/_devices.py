"""Devices as JSON documents: in a launch, in a resize."""

from __future__ import annotations

from typing import Any

from staves.hardware import Device, DeviceProfile, DeviceType


def to_document(device: Device) -> dict[str, Any]:
    """Return the device as plain values."""
    profile = device.type.profile
    return {
        "name": device.name,
        "type": device.type.name,
        "memory_bytes": device.type.memory_bytes,
        "profile": None if profile is None else profile.to_document(),
        "node": device.node,
        "index": device.index,
        "link": device.link_bits_per_second,
    }


def from_document(document: dict[str, Any]) -> Device:
    """Return what `to_document` wrote."""
    profile = document["profile"]
    kind = DeviceType(
        document["type"],
        document["memory_bytes"],
        None if profile is None else DeviceProfile.from_document(profile),
    )
    return Device(document["name"], kind, document["node"], document["index"], document.get("link"))
