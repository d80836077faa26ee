"""The batch script: which GPUs it sees, and that it never runs twice."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from staves.engines.slurm._script import script

SHOWS = ["/bin/sh", "-c", 'echo "${CUDA_VISIBLE_DEVICES-unset}"']
TOLD = "JobId=7 GresUsed=x JOB_GRES=gpu:a:3 Nodes=n0 CPU_IDs=0 Mem=0 GRES=%s MinCPUsNode=1"


def run(folder: Path, *, told: str = "", **environ: str) -> str:
    """Run the script where `scontrol` tells that of the job's devices."""
    scontrol = folder / "scontrol"
    scontrol.write_text(f"#!/bin/sh\ncat <<'END'\n{TOLD % told}\nEND\n")
    scontrol.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh"],
        input=script(SHOWS),
        env={"PATH": path, "SLURM_JOB_ID": "7", **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ("gpu:a:1(IDX:2)", "2"),
        ("gpu:a:3(IDX:0,2-3)", "0,2,3"),
        ("gpu:a:2(IDX:8-9),gpu:b:1(IDX:11)", "8,9,11"),
        ("gpu:2(IDX:0-1)", "0,1"),
        ("gpu:a:1(CNT:1)", "unset"),
        ("shard:a:1(IDX:3)", "unset"),
        ("", "unset"),
    ],
)
@pytest.mark.parametrize("environ", [{}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}])
def test_gpus_that_slurm_gave_are_seen(
    tmp_path: Path, told: str, seen: str, environ: dict[str, str]
) -> None:
    assert run(tmp_path, told=told, **environ) == seen


def test_what_slurm_says_itself_stays(tmp_path: Path) -> None:
    assert run(tmp_path, told="gpu:a:1(IDX:2)", CUDA_VISIBLE_DEVICES="0") == "0"


def test_requeued_it_does_not_run_again(tmp_path: Path) -> None:
    assert run(tmp_path, SLURM_RESTART_COUNT="0") == "unset"
    assert run(tmp_path, SLURM_RESTART_COUNT="1") == ""
