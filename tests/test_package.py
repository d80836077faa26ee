"""The rules of the architecture that a test can hold: floors, lazy imports, sizes and names."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import staves

SOURCE = Path(staves.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

FLOORS = {
    "errors": 0,
    "documents": 0,
    "locks": 0,
    "hardware": 1,
    "reports": 1,
    "steptime": 2,
    "convergence": 3,
    "membership": 3,
    "estimation": 4,
    "scheduling": 5,
    "training": 6,
    "engines._base": 6,
    "engines": 7,
    "kubernetes": 7,
    "simulation": 7,
    "service": 8,
    "cli": 9,
    "dashboard": 9,
}
# No room: the package's own face, the command's entry, and the conformance suites, which check
# rooms of every floor and are used by none.
FACE = {"__init__", "__main__", "testing"}
SAME_FLOOR = {("documents", "errors")}  # errors is the ground that everything stands on

HEAVY = {"torch", "ray", "sqlalchemy", "fastapi", "httpx", "uvicorn", "polars", "matplotlib"}


def room_of(module: str) -> str:
    """Return the room of `staves.room.module`; `engines._base` is a room of its own."""
    parts = module.split(".")[1:]
    if parts[:2] == ["engines", "_base"]:
        return "engines._base"
    return parts[0] if parts else "__init__"


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module of staves) for every import in the file, in functions as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides the room"
            for alias in node.names:
                # In `from staves import x`, x may be a room.
                inner = node.module in ("staves", "staves.engines")
                yield node.lineno, f"{node.module}.{alias.name}" if inner else str(node.module)


def module_of(path: Path) -> str:
    return ".".join(("staves", *path.relative_to(SOURCE).with_suffix("").parts))


def allowed(own: str, other: str) -> bool:
    if own in FACE or own == other or (own, other) in SAME_FLOOR:
        return True
    if other not in FLOORS:
        # Names of the package's face, such as `staves.__version__`; never the suites.
        return other != "testing"
    return FLOORS[other] < FLOORS[own]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_from_floors_below(path: Path) -> None:
    own = room_of(module_of(path))
    assert own in FACE or own in FLOORS, f"{own} has no floor: add it to the architecture first"
    for line, module in imports_of(path):
        if module.split(".")[0] == "staves":
            other = room_of(module)
            assert allowed(own, other), f"{path}:{line}: {own} must not import {other}"


def test_the_floors_hold_what_they_say() -> None:
    assert allowed("service", "engines._base")
    assert allowed("engines", "engines._base")
    assert allowed("simulation", "engines._base")
    for own, other in (
        ("hardware", "steptime"),
        ("training", "engines._base"),
        ("training", "engines"),
        ("convergence", "membership"),
        ("simulation", "engines"),
        ("errors", "documents"),
        ("scheduling", "testing"),
    ):
        assert not allowed(own, other)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_stay_small_and_say_their_name(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500
    assert path.stem not in ("utils", "common", "helpers")


@pytest.mark.parametrize(
    "module", ["staves", "staves.documents", "staves.hardware", "staves.service", "staves.cli._app"]
)
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, time, {module}; print(*({HEAVY!r} & sys.modules.keys())); "
        "print(time.process_time(), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    print(f"{module}: {done.stderr.strip()} s of CPU")
    assert done.stdout.split() == []


def test_the_face_lists_what_it_has() -> None:
    for name in staves.__all__:
        assert name in dir(staves)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = staves.nothing
