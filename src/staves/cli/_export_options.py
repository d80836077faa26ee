"""The options of `staves export` that hold several things in one text."""

from __future__ import annotations

from collections.abc import Iterable

from staves.errors import InputError, quoted
from staves.kubernetes import PRODUCT_LABEL, Claim

CHECKPOINTS = "/checkpoints"
"""Where the claim with checkpoints is seen, by default."""


def labels(texts: Iterable[str]) -> dict[str, str]:
    """Return labels by key.

    Raises:
        InputError: one is malformed, or stands twice.
    """
    result: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InputError(f"--label: {quoted(text)} is no label", hint="write KEY=VALUE")
        if key in result:
            raise InputError(f"--label: {quoted(key)} stands twice", hint="keep one of them")
        result[key] = value
    return result


def selectors(texts: Iterable[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return node labels by device type; a key that stands twice has several values.

    Raises:
        InputError: one is malformed.
    """
    result: dict[str, dict[str, tuple[str, ...]]] = {}
    for text in texts:
        device_type, colon, label = text.partition(":")
        key, equals, value = label.partition("=")
        if not (device_type and colon and key and equals and value):
            raise InputError(
                f"--select: {quoted(text)} names no nodes",
                hint=f"write TYPE:LABEL=VALUE, like a100:{PRODUCT_LABEL}=NVIDIA-A100-SXM4-40GB",
            )
        keys = result.setdefault(device_type, {})
        keys[key] = (*keys.get(key, ()), value)
    return result


def claim(text: str) -> Claim:
    """Return a claim and its place.

    Raises:
        InputError: malformed.
    """
    name, _, rest = text.partition(":")
    path, read_only = (rest[:-3], True) if rest.endswith(":ro") else (rest, False)
    if not name or not path:
        raise InputError(
            f"--claim: {quoted(text)} is no claim and path",
            hint="write CLAIM:PATH, or CLAIM:PATH:ro",
        )
    return Claim(name, absolute("--claim", path), read_only)


def checkpoints(text: str) -> Claim:
    """Return the claim of the checkpoints and its place.

    Raises:
        InputError: malformed.
    """
    name, colon, path = text.partition(":")
    if not name or (colon and not path):
        raise InputError(
            f"--checkpoints: {quoted(text)} is no claim", hint="write CLAIM, or CLAIM:PATH"
        )
    return Claim(name, absolute("--checkpoints", path or CHECKPOINTS))


def runtime(text: str) -> tuple[str, str]:
    """Return kind and name of a runtime: the cluster's own, unless its kind is named."""
    kind, slash, name = text.partition("/")
    return (kind, name) if slash else ("ClusterTrainingRuntime", text)


def absolute(option: str, path: str) -> str:
    """Return the path.

    Raises:
        InputError: it is not absolute: in a pod there is no folder to take it from.
    """
    if not path.startswith("/"):
        raise InputError(f"{option}: {quoted(path)} is not absolute", hint="begin it with /")
    return path
