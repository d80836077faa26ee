"""How commands begin and end, whatever their streams are and whenever they are interrupted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import staves
from staves.cli import run_command

SOURCE = str(Path(staves.__file__).parent.parent)
LINE = {"fixed": 0.01, "per_sample": 0.001}


def write(path: Path, name: str = "d", kind: str = "x") -> str:
    device = {"name": name, "type": kind, "forward": LINE, "backward": LINE}
    wire = {"ready": [1.0], "seconds": [0.0]}
    path.write_text(json.dumps({"devices": [device], "communication": wire}))
    return str(path)


def shell(command: str, tmp_path: Path, **environ: str) -> tuple[int, str, str]:
    """Run `command` with $STAVES in it, and $PLAN, a plan that is fine."""
    model = write(tmp_path / "m.json")
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": SOURCE,
            "STAVES": f"{sys.executable} -m staves",
            "PLAN": f"{sys.executable} -m staves plan --steptime {model} --batch 4",
        }
        | environ,
    )
    return done.returncode, done.stdout, done.stderr


CLOSED = "staves: standard output is closed (redirect it: > /dev/null)\n"
FULL = "staves: the disk is full (free some space and run this again)\n"
ABSENT = "$STAVES plan --steptime nope --batch 4"


@pytest.mark.parametrize(
    ("command", "code", "errors"),
    [
        ("$PLAN >&-", 1, CLOSED),
        ("$PLAN --json >&-", 1, CLOSED),
        ("$STAVES --version >&-", 1, CLOSED),
        ("$STAVES --version >&- 2>&-", 1, ""),
        ("$PLAN 2>&- >/dev/null", 0, ""),
        (f"{ABSENT} 2>&-", 2, ""),
        ("$PLAN | true", 0, ""),
        ("$PLAN --json | true", 0, ""),
        ("$PLAN | head -1 >/dev/null", 0, ""),
        ("$STAVES --help | true", 0, ""),
        ("$STAVES --version | true", 0, ""),
        ("$PLAN >/dev/full", 1, FULL),
        ("$PLAN --json >/dev/full", 1, FULL),
        (f"{ABSENT} 2>/dev/full", 2, ""),
        (f"{{ {ABSENT} 2>&1 >/dev/null; }} | true", 2, ""),
        (ABSENT, 2, "staves: nope: no such file (check the path)\n"),
    ],
)
def test_streams(command: str, code: int, errors: str, tmp_path: Path) -> None:
    returned, output, stderr = shell(command, tmp_path)
    assert (returned, output, stderr) == (code, "", errors)


def test_names_print_on_any_terminal(tmp_path: Path) -> None:
    path = write(tmp_path / "é.json", name="é")
    command = f"$STAVES plan --batch 2 --steptime {path}"
    code, output, _ = shell(command, tmp_path, PYTHONIOENCODING="ascii")
    assert code == 0
    assert "\\xe9" in output


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_is_no_traceback(late: bool, tmp_path: Path) -> None:
    """While the application loads, and while a command loads what it needs."""
    model = write(tmp_path / "m.json")
    code = f"""
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == {"numpy" if late else "typer"!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from staves.cli import main
main(["plan", "--steptime", {model!r}, "--batch", "4"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": SOURCE},
    )
    assert done.returncode == 130
    assert done.stdout == ""
    assert done.stderr == ("staves: interrupted\n" if late else "")


def test_staves_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 2
    captured = capsys.readouterr()
    assert "Usage: staves" in captured.out + captured.err
    assert "see: staves --help" not in captured.err


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[/red]", "[/red]"),
        ("[red]x", "[red]x"),
        (":smile:", ":smile:"),
        ("[link=x]", "[link=x]"),
        ("\x1b[31mx", "\\x1b[31mx"),
        ("x\ny\rz", "x\\ny\\rz"),
        ("\u202ex", "\\u202ex"),
    ],
)
def test_names_are_shown_as_they_are(
    name: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write(tmp_path / "m.json", name, kind=name)
    assert run_command(["plan", "--steptime", model, "--batch", "4"]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:2] == [shown, shown]


WORDS = ["min_\nbatch", "\x1b[31m", "x\u2028y", "\r", "a" * 5000, "\x00"]


@pytest.mark.parametrize("word", WORDS)
def test_the_files_own_text_keeps_to_one_line(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = {"name": "d", "type": "x", "forward": LINE, "backward": LINE}
    wire = {"ready": [1.0], "seconds": [0.0]}
    documents: list[dict[str, Any]] = [
        {word: 1},
        {"devices": [device | {word: 1}], "communication": wire},
        {"devices": [device | {"min_batch": word}], "communication": wire},
        {"devices": [device | {"name": word}] * 2, "communication": wire},
    ]
    texts = [json.dumps(document) for document in documents]
    texts.append(f"{{{json.dumps(word)}: 1, {json.dumps(word)}: 2}}")
    for text in texts:
        (tmp_path / "m.json").write_text(text)
        check_one_line(["plan", "--steptime", str(tmp_path / "m.json"), "--batch", "3"], capsys)
    for text in (
        f"nodes: [{{devices: {{{json.dumps(word)}: 1}}}}]",
        f"nodes: [{{name: {json.dumps(word)}, devices: {{t4: 1}}}}]",
        f"nodes: [{{devices: {{t4: {json.dumps(word)}}}}}]",
        f"nodes: [{{devices: {{t4: 1}}, link: {json.dumps(word)}}}]",
        f"types: {{{json.dumps(word)}: {{}}}}\nnodes: [{{devices: {{t4: 1}}}}]",
        f"types: {{t4: {{{json.dumps(word)}: 1}}}}\nnodes: [{{devices: {{t4: 1}}}}]",
        f"{json.dumps(word)}: 1\n{json.dumps(word)}: 2",
    ):
        (tmp_path / "c.yaml").write_text(text)
        check_one_line(["run", "script.py", "--devices", str(tmp_path / "c.yaml")], capsys)


@pytest.mark.parametrize("word", [word for word in WORDS if "\x00" not in word])
def test_names_of_files_keep_to_one_line(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_one_line(["plan", "--steptime", word, "--batch", "3"], capsys, most=2100)
    check_one_line(["plan", f"--{word}"], capsys, most=2100)


def check_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str], most: int = 700
) -> None:
    assert run_command(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.removesuffix("\n")
    assert line.isprintable()
    assert len(line) < most
