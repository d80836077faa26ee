"""YAML as people expect it: the scalars of YAML 1.2, keys of text, none of them twice.

The library reads YAML 1.1, where `010` is 8, `1:30` is 90, `1_0` is 10 and `1e-3` is text. Only its
booleans stay as they are: `yes`, `no`, `on` and `off` as well.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from staves.documents._problems import kind_of
from staves.errors import printable, quoted

LONGEST_NUMBER = 1000
"""Digits of a number; Python itself refuses a few thousand, and words it for programmers."""

_INT, _FLOAT, _MERGE = (f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "merge"))
_REPLACED = {_INT, _FLOAT, "tag:yaml.org,2002:timestamp"}


class Refused(yaml.constructor.ConstructorError):
    """What is YAML, but not of the kind that Staves reads."""

    def __init__(self, problem: str, hint: str, mark: yaml.Mark) -> None:
        super().__init__(None, None, problem, mark)
        self.hint, self.mark = hint, mark


class Loader(yaml.SafeLoader):
    """YAML's safe loader with the scalars of YAML 1.2, which refuses odd keys and long numbers."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (the library's own way)
        first: [(tag, expression) for tag, expression in resolvers if tag not in _REPLACED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct as ever, but let no wrong scalar pass without its place (`!!int x`)."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError):
            kind = node.tag.rpartition(":")[2]
            problem = f"{quoted(node.value)} is no {kind}"
            raise Refused(problem, "take the tag off", node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct as ever, but refuse a key that is no text or stands twice."""
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _no_text(key_node, key)
            if key in seen:
                raise Refused(
                    f"the key {quoted(key)} stands twice", "keep one of them", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _no_text(node: yaml.Node, key: object) -> Refused:
    if not isinstance(node, yaml.ScalarNode):
        return Refused(f"a key must be text, not {kind_of(key)}", "write a name", node.start_mark)
    if not node.value:
        return Refused("a key must be text, but it is empty", "write a name", node.start_mark)
    means = f", which YAML reads as {kind_of(key)}" if key is None or isinstance(key, bool) else ""
    return Refused(
        f"a key must be text, not {printable(node.value)}{means}",
        f"put it in quotes: {quoted(node.value)}",
        node.start_mark,
    )


def _whole(loader: Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > LONGEST_NUMBER:
        raise Refused(f"a number of {len(text)} digits", "shorten it", node.start_mark)
    base = {"0x": 16, "0o": 8}.get(text[:2], 10)
    return int(text, base)


Loader.add_constructor(_INT, _whole)
Loader.add_implicit_resolver(
    _INT, re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")
)
Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
    list("-+.0123456789"),
)
