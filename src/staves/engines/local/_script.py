"""Whether a command only runs a Python script that trains, so that its worker may be forked."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SHELL = ("/bin/sh", "-c")
_NOT_PLAIN = re.compile(r"[^\w@%+=:,./'\" -]", re.ASCII)
"""What might mean something to a shell, in or out of quotes."""
_TRAINS = re.compile(rb"\b(staves|torch)\b")


def script_of(
    command: Sequence[str], environ: Mapping[str, str], workdir: Path
) -> list[str] | None:
    """Return the script of a command, and its arguments, where this Python runs it plainly.

    That is `python SCRIPT.py ARGUMENTS`, as such or as a shell line of plain words; `python` has to
    be this process's own, found in the PATH of `environ`, and without options. A script that names
    neither staves nor torch has nothing to gain, and would wait for torch in vain.
    """
    words = list(command)
    if tuple(words[:2]) == _SHELL:
        words = _plain_words(words[2]) if len(words) == 3 else []
    if len(words) < 2 or not _is_this_python(words[0], environ, workdir):
        return None
    script = workdir / words[1]
    if words[1].startswith("-") or script.suffix != ".py" or not script.is_file():
        return None
    return words[1:] if _TRAINS.search(script.read_bytes()) else None


def _plain_words(line: str) -> list[str]:
    if _NOT_PLAIN.search(line):
        return []
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote: the shell's to refuse
        return []
    return words[1:] if words[:1] == ["exec"] else words


def _is_this_python(word: str, environ: Mapping[str, str], workdir: Path) -> bool:
    found = workdir / word if "/" in word else shutil.which(word, path=environ.get("PATH", ""))
    if found is None:
        return False
    own, other = Path(sys.executable), Path(found)
    # Virtual environments link to one interpreter: it is the folder that tells them apart.
    return (os.path.realpath(own), own.parent.resolve()) == (
        os.path.realpath(other),
        other.parent.resolve(),
    )
