"""A script that leaves its training on one rank only."""

from __future__ import annotations

from pathlib import Path

from tests.elastic.driver import PATIENCE, job


def test_who_exits_with_status_0_in_the_middle_is_named(tmp_path: Path) -> None:
    """Its run.epochs is closed like that of a loop that breaks off, which all ranks may do."""
    faults = [{"member": 1, "kind": "exit", "step": 12}]
    with job(tmp_path, 2, faults=faults, paced=False) as running:
        _, stderr = running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == 1
    assert "a rank ended its training after 12 steps, while node0/local-cpu-0 goes on" in stderr
    assert "Traceback" not in stderr
