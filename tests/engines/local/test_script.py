"""Which commands may be forked: the shell itself says what a line's words are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.engines.local._script import script_of

PYTHON = Path(sys.executable)
ENVIRON = {"PATH": f"/nowhere:{PYTHON.parent}:/usr/bin:/bin"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "train.py").write_text("import torch\n")
    (folder / "plain.py").write_text("import json\n")
    (folder / "train").write_text("import torch\n")
    (folder / "own").mkdir()
    (folder / "own" / "python").symlink_to(os.path.realpath(PYTHON))
    (folder / "link").symlink_to(PYTHON.parent)
    return folder


def line(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


@pytest.mark.parametrize(
    "command",
    [
        [str(PYTHON), "train.py", "$HOME", "a b", ";"],
        line(f"{PYTHON.name} train.py --rate 0.1 'two words' x=y"),
        line(f"{PYTHON} ./train.py"),
        line(f"exec {PYTHON} train.py"),
        line("link/" + PYTHON.name + " train.py"),
    ],
)
def test_a_plain_script_is_one(command: list[str], folder: Path) -> None:
    script = script_of(command, ENVIRON, folder)
    assert script is not None
    assert (folder / script[0]).samefile(folder / "train.py")


@pytest.mark.parametrize(
    "command",
    [
        [str(PYTHON), "plain.py"],
        [str(PYTHON), "train"],
        [str(PYTHON), "absent.py"],
        [str(PYTHON), "-O", "train.py"],
        [str(PYTHON), "-m", "train"],
        [str(PYTHON)],
        [],
        ["/bin/sh", "train.py"],
        line(f"{PYTHON} -u train.py"),
        line(f"{PYTHON} train.py > log"),
        line(f"{PYTHON} train.py && true"),
        line(f"{PYTHON} train.py\ntrue"),
        line(f"{PYTHON} train.py $RATE"),
        line(f"{PYTHON} train.py ~"),
        line(f"{PYTHON} train.py 'open"),
        line(f"RATE=1 {PYTHON} train.py"),
        line(f"exec -a name {PYTHON} train.py"),
        line(f"exec exec {PYTHON} train.py"),
        line("sh train.py"),
        line("own/python train.py"),  # the same program, in another environment of modules
        line("absent/python train.py"),
        [*line(f"{PYTHON} train.py"), "name"],
        line(""),
    ],
)
def test_anything_else_is_not(command: list[str], folder: Path) -> None:
    assert script_of(command, ENVIRON, folder) is None


@given(st.text("ab -=,.:/'\"\\$`*?[]{}()<>|&;!~#%^@+\té", max_size=12))
def test_words_are_those_of_the_shell(folder: Path, text: str) -> None:
    script = script_of(line(f"{PYTHON} train.py {text}"), ENVIRON, folder)
    if script is not None:
        shell = subprocess.run(
            line(f"printf '%s\\0' train.py {text}"), capture_output=True, check=True, cwd=folder
        )
        assert shell.stdout.decode().split("\0")[:-1] == script
