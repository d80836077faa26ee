"""How what a job has learned tells the lines of a whole device type from those of one device."""

from __future__ import annotations

_TYPE = "type "  # no device is named so: names hold no space


def type_key(name: str) -> str:
    """Return the key of the lines of device type `name`."""
    return f"{_TYPE}{name}"


def type_of(key: str) -> str | None:
    """Return the device type whose lines stand under `key`; None where they are one device's."""
    return key.removeprefix(_TYPE) if key.startswith(_TYPE) else None
