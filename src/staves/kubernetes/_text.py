"""A manifest as YAML that every reader reads alike, and as a document."""

from __future__ import annotations

import re
from typing import Any

import yaml

from staves.kubernetes._models import Part

# What YAML 1.1, YAML 1.2 and the library of Kubernetes all take for text without quotes. The last
# of them reads 1e3, 0o17 and 1_000 as numbers, and others read yes and off as booleans.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes unless it is surely text, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def document(manifest: Part) -> dict[str, Any]:
    """Return the manifest as plain mappings and lists, without what is not said."""
    return manifest.model_dump(mode="json", exclude_none=True)


def to_yaml(manifest: Part, comments: tuple[str, ...]) -> str:
    """Return the manifest as YAML under comments, each of which is one line."""
    head = "".join(f"# {line}\n" for line in comments)
    return head + yaml.dump(
        document(manifest), Dumper=_Dumper, sort_keys=False, allow_unicode=False, width=2**20
    )
