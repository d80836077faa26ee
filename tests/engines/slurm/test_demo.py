"""The demo, as it stands, on Slurm: `python -m examples.demo --engine slurm`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.ray.test_demo import demo
from tests.engines.required import needed
from tests.engines.slurm.daemons import PROGRAMS, SlurmDaemons, installed

GRES = {"fast-0": "gpu:a100:1", "fast-1": "gpu:a100:1", "middle": "gpu:v100:2", "slow": "gpu:t4:2"}


@pytest.mark.soak
def test_its_jobs_run_through_four_slurmd_as_they_do_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(f"Slurm ({', '.join(PROGRAMS)})", installed())
    daemons = SlurmDaemons(GRES)
    try:
        monkeypatch.setenv("SLURM_CONF", str(daemons.conf))
        there = demo(tmp_path / "slurm", "--engine=slurm")
        assert daemons.jobs() == []
    finally:
        daemons.close()
    here = demo(tmp_path / "local")
    for ours, theirs in zip(there["jobs"], here["jobs"], strict=True):
        print(json.dumps({"slurm": ours["loss"], "local": theirs["loss"]}))
        assert (ours["name"], ours["state"]) == (theirs["name"], "finished")
        # That of the first epoch is told by the last attempt: one that was saved began later.
        assert ours["loss"]["last"] == pytest.approx(theirs["loss"]["last"], rel=0.05)
    assert any(job["mixed"] for job in there["jobs"])
