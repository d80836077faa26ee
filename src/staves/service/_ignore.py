"""The ignore file: which paths of a working directory a snapshot leaves out, as git would."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

IGNORE_FILE = ".stavesignore"

_TOKEN = re.compile(r"\*\*/|/\*\*\Z|\*+|\?|\[!?\]?[^\]]*\]|\\?.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Pattern:
    expression: re.Pattern[str]
    folders_only: bool
    negated: bool


class Ignore:
    """Patterns as in gitignore(5), one a line; the last that matches decides.

    `#` begins a comment, `!` takes a path back in, a `/` at the end means folders only, a `/`
    elsewhere ties the pattern to the top; `*` and `?` match within a name, `**` across folders.
    What is in a folder that is left out cannot be taken back in.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [p for p in map(_pattern, lines) if p is not None]

    def __call__(self, path: str, *, folder: bool) -> bool:
        """Say whether `path`, relative and with `/`, is left out."""
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders_only) and pattern.expression.fullmatch(path):
                return not pattern.negated
        return False


def _pattern(line: str) -> _Pattern | None:
    line = line.rstrip("\r\n")
    if not line.endswith("\\ "):
        line = line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[negated:]
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anywhere = "" if "/" in line else "(?:.*/)?"
    body = "".join(map(_translated, _TOKEN.findall(line.removeprefix("/"))))
    return _Pattern(re.compile(anywhere + body, re.DOTALL), folders_only, negated)


def _translated(token: str) -> str:
    if token == "**/":
        return "(?:.*/)?"
    if token == "/**":
        return "/.*"
    if token.startswith("*"):
        return "[^/]*"
    if token == "?":
        return "[^/]"
    if len(token) > 2 and token.startswith("["):
        inverted = token.startswith("[!")
        inside = token[1 + inverted : -1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[{'^/' if inverted else ''}{inside.replace('^', chr(92) + '^')}]"
    return re.escape(token[-1])
