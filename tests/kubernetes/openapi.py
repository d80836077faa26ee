"""Checks a document as a Kubernetes API server does, against the schema of a resource definition.

Structural schemas only (`openAPIV3Schema`), which is what resource definitions hold; rules in CEL
are not evaluated. A field that the schema does not know is an error, as with `kubectl`'s strict
validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def schema_of(definition: Mapping[str, Any], version: str) -> Schema:
    """Return the schema of a version of a resource definition."""
    (found,) = [each for each in definition["spec"]["versions"] if each["name"] == version]
    schema: Schema = found["schema"]["openAPIV3Schema"]
    return schema


def problems(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Yield what is wrong with `value`, with the path to it."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield f"{path}: neither a whole number nor text"
        elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            yield f"{path}: {value!r} does not match"
        return
    kind = schema.get("type")
    if kind is not None:
        wrong = not isinstance(value, _KINDS[kind])
        if wrong or (isinstance(value, bool) and kind != "boolean"):
            yield f"{path}: is no {kind}"
            return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, dict):
        yield from _mapping(value, schema, path)
    elif isinstance(value, list):
        yield from _list(value, schema, path)
    elif isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            yield f"{path}: {value!r} does not match {schema['pattern']}"
        yield from _size(len(value), schema, "Length", path)
    elif isinstance(value, (int, float)):
        within = schema.get("minimum", value) <= value <= schema.get("maximum", value)
        if not within:
            yield f"{path}: {value} is out of bounds"


def _mapping(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    known = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    opaque = schema.get("x-kubernetes-preserve-unknown-fields") or not (known or rest)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: is missing"
    for name, part in value.items():
        if name in known:
            yield from problems(part, known[name], f"{path}.{name}")
        elif isinstance(rest, Mapping):
            yield from problems(part, rest, f"{path}.{name}")
        elif not opaque:
            yield f"{path}.{name}: unknown"


def _list(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    for place, part in enumerate(value):
        yield from problems(part, schema["items"], f"{path}[{place}]")
    yield from _size(len(value), schema, "Items", path)
    if schema.get("x-kubernetes-list-type") == "map":
        keys = [
            tuple(part.get(key) for key in schema["x-kubernetes-list-map-keys"]) for part in value
        ]
        if len(set(keys)) < len(keys):
            yield f"{path}: an entry stands twice"


def _size(size: int, schema: Schema, what: str, path: str) -> Iterator[str]:
    if not schema.get(f"min{what}", 0) <= size <= schema.get(f"max{what}", size):
        yield f"{path}: of size {size}"
