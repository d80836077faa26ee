"""The jobs of the demo: their files say what runs, and what runs learns."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from staves.hardware import read_cluster
from staves.service import read_job
from tests.training.launch import ROOT, Launched, command

DEMO = ROOT / "examples" / "demo"
CLUSTER = DEMO / "cluster.yaml"
JOBS = sorted(path for path in DEMO.glob("*.yaml") if path != CLUSTER)

each_job = pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def words(path: Path) -> list[str]:
    """Return the script and the arguments that a job runs with Python."""
    python, *rest = shlex.split(read(path)["run"])
    assert python == "python"
    return rest


def option(arguments: list[str], name: str) -> int:
    return int(arguments[arguments.index(name) + 1])


def test_there_are_jobs_of_four_kinds() -> None:
    assert len({words(path)[0] for path in JOBS}) >= 4


@each_job
def test_a_job_file_says_what_the_cluster_can_give(path: Path) -> None:
    job, cluster = read(path), read_cluster(CLUSTER)
    read_job(path, types={device.type.name for device in cluster.devices()})
    assert job["name"] == path.stem
    assert job["batch"] == {"reference": option(words(path), "--batch"), "scaling": "fixed"}
    assert 0 <= job.get("priority", 50) <= 100
    devices = job["devices"]
    assert {"min", "max"} <= devices.keys() <= {"min", "max", "types"}
    types = [device.type.name for device in cluster.devices()]
    assert set(devices.get("types", types)) <= set(types)
    usable = [name for name in types if name in devices.get("types", types)]
    assert 1 <= devices["min"] <= devices["max"] <= len(usable)
    assert (DEMO / job["workdir"] / words(path)[0]).is_file()


def trained(path: Path, home: Path) -> Launched:
    """Run a job's own command from its work folder, for two epochs."""
    arguments = words(path)
    arguments[arguments.index("--epochs") + 1] = "2"
    return command(arguments, home, cwd=DEMO / read(path)["workdir"])


@each_job
def test_a_job_learns_under_plain_python_and_alike_every_time(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # models this small gain nothing by threads
    done = trained(path, tmp_path)
    assert done.status == 0, done.stderr
    assert done.stderr == ""
    said = re.findall(r"^epoch (\d+): loss (\S+), (\w+) (\S+)$", done.stdout, re.MULTILINE)
    assert [epoch for epoch, *_ in said] == ["1", "2"], done.stdout
    (_, first, metric, quality_first), (_, last, _, quality_last) = said
    assert float(last) < float(first)
    gain = float(quality_last) - float(quality_first)
    assert (gain < 0) if metric == "bits_per_character" else (gain > 0)
    assert trained(path, tmp_path).stdout == done.stdout


@pytest.mark.parametrize("script", ["digits.py", "table.py"])
def test_without_scikit_learn_a_script_says_what_to_install(script: str, tmp_path: Path) -> None:
    code = "import runpy, sys; sys.modules['sklearn'] = None; runpy.run_path(sys.argv[1])"
    done = command(["-c", code, ROOT / "examples" / script], tmp_path)
    assert done.status == 1
    (line,) = done.stderr.splitlines()
    assert "pip install scikit-learn" in line
