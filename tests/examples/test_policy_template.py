"""The template of docs/writing-a-policy.md, as if it were installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.training.launch import ROOT

TEMPLATE = ROOT / "examples" / "policy"
PROJECT = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Return an environment that has the package: its file, and the entry points that it names."""
    folder = tmp_path / f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    lines = []
    for group, points in PROJECT["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    paths = [str(tmp_path), str(TEMPLATE), str(ROOT / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def staves(environment: dict[str, str], *arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "staves", *arguments, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    document: dict[str, object] = json.loads(done.stdout)
    return document


def test_it_is_listed_and_runs_in_the_simulator(installed: dict[str, str], tmp_path: Path) -> None:
    known = staves(installed, "policies")["policies"]
    assert isinstance(known, list)
    assert [one["job_kind"] for one in known if one["name"] == "even"] == ["elastic"]
    arguments = ("--cluster", "sia-64", "--workload", "synthetic-8", "--policy", "even")
    runs = staves(installed, "simulate", *arguments)["runs"]
    assert isinstance(runs, list)
    assert runs[0]["summary"]["finished"] == 8


def test_its_own_tests_pass(installed: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            *["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c"],
            os.devnull,
            TEMPLATE,
        ],
        env=installed,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout


def test_the_page_shows_what_the_template_holds() -> None:
    page = (ROOT / "docs" / "writing-a-policy.md").read_text()
    ((name, value),) = PROJECT["entry-points"]["staves.policies"].items()
    assert f'{name} = "{value}"' in page
    assert "class TestConformance(PolicyConformance):" in page
