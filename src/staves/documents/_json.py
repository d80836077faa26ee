"""Where in a JSON text something stands: the parser does not say."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


def place_of(text: str, offset: int) -> str:
    """Return `line:column` of the character at `offset`."""
    before = text[:offset]
    return f"{before.count(chr(10)) + 1}:{offset - (before.rfind(chr(10)) + 1) + 1}"


def duplicate_key(text: str) -> int:
    """Return the offset of the first key that stands twice in its object; 0 without one.

    `text` is JSON as far as that key, so that tokens are enough: a string before a colon is a key.
    """
    open_objects: list[set[str] | None] = []  # the keys seen; None for a list
    string: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{":
                open_objects.append(set())
            case "[":
                open_objects.append(None)
            case "}" | "]":
                if open_objects:
                    open_objects.pop()
            case ":":
                keys = open_objects[-1] if open_objects else None
                if string is not None and keys is not None:
                    key = json.loads(string[0], strict=False)
                    if key in keys:
                        return string.start()
                    keys.add(key)
            case _:
                string = token
    return 0
