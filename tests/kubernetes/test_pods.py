"""What the pods of a manifest run, run here: one process group a pod, on loopback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import torch

from staves.kubernetes import Claim, Group, Platform, Workload, document, jobset
from tests.kubernetes.cluster import Pod, pods_of
from tests.kubernetes.workloads import IMAGE
from tests.training.launch import SCRIPTS, environment, free_port

STEPS = 40  # of the script


def start(pod: Pod, port: int, folder: Path) -> subprocess.Popen[str]:
    """Start a pod's command as a container would, but here: no image, and a name for the host."""
    place = {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(port)}
    return subprocess.Popen(
        pod.command,
        env={**environment(folder), **pod.env, **place, "OMP_NUM_THREADS": "1"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(pods: list[Pod], folder: Path) -> str:
    """Run pods to their end and return what they print."""
    port = free_port()
    started = [start(pod, port, folder) for pod in pods]
    try:
        printed = "".join(process.communicate(timeout=240)[0] for process in started)
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert [process.returncode for process in started] == [0] * len(pods), printed
    return printed


def test_unlike_pods_train_one_job_and_its_second_start_finds_its_checkpoint(
    tmp_path: Path,
) -> None:
    script = shlex.join([sys.executable, str(SCRIPTS / "plain.py")])
    workload = Workload(
        "job",
        f'{script} "$OUT/rank-$RANK-$((1 + WORLD_SIZE)).pt"',
        (Group("a100", ("a100",), 2), Group("t4", ("t4",), 1)),
        env={"OUT": str(tmp_path)},
    )
    platform = Platform(IMAGE, checkpoints=Claim("saved", str(tmp_path)))
    pods = pods_of(document(jobset(workload, platform)), {})
    here = Path(sys.executable).parent
    os_path = f"{here}{os.pathsep}{os.environ['PATH']}"
    pods = [Pod(pod.host, pod.command, {**pod.env, "PATH": os_path}) for pod in pods]

    run(pods, tmp_path)
    told = torch.load(tmp_path / "rank-0-4.pt")
    assert (told["world"], told["steps"]) == (3, STEPS)
    assert any((tmp_path / "job").iterdir())  # the last checkpoint

    again = run(pods, tmp_path)
    assert "epoch 8" not in again  # nothing is left to train
    resumed = torch.load(tmp_path / "rank-0-4.pt")
    assert all(map(torch.equal, resumed["parameters"], told["parameters"]))
