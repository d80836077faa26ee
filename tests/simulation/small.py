"""A small application whose times can be reckoned by hand, and its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from staves.hardware import Cluster, DeviceType, Node
from staves.simulation import Application, Statistics
from staves.simulation._curves import Curve, StepTable

FIXED, PER_SAMPLE, SYNC = 0.02, 0.001, 0.01


def table(speed: float, nodes: int = 4, size: int = 4, largest: int = 64) -> StepTable:
    """Computing: FIXED + PER_SAMPLE b, over speed; sync: SYNC for each device beyond the first."""
    batch = np.array([1.0, 2.0, 8.0, float(largest)])

    def curve(devices: int) -> Curve:
        sync = SYNC * (devices - 1)
        step = (FIXED + PER_SAMPLE * batch) / speed + sync
        return Curve(batch, step, np.full(len(batch), sync))

    shapes = {(n, d): curve(d) for n in range(1, nodes + 1) for d in range(n, n * size + 1)}
    return StepTable({}, shapes)


def application(
    speeds: dict[str, float], *, epochs: int = 3, reference: int = 16, pause: float = 30.0
) -> Application:
    batches = (reference * 2.0 ** np.arange(4)).astype(np.float64)
    noise = np.geomspace(1.0, 30.0, epochs).astype(np.float64)
    return Application(
        "small",
        {name: table(speed) for name, speed in speeds.items()},
        Statistics(
            batches,
            (100.0 * np.arange(1, epochs + 1)).astype(np.float64),
            np.ones((epochs, 4)),
            np.repeat(noise[:, None], 4, axis=1),
        ),
        pause,
    )


def cluster(**nodes: int) -> Cluster:
    """`a=2` is two nodes of four devices of the type a."""
    return Cluster(
        {name: DeviceType(name) for name in nodes},
        tuple(
            Node(f"{name}-{index}", {name: 4})
            for name, count in nodes.items()
            for index in range(count)
        ),
    )


PLACEMENTS = "placement,local_bsz,step_time,sync_time\n1,8,0.1,0.0\n1,16,0.2,0.0\n44,8,0.3,0.1\n"
SCALABILITY = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n3,12,8,0.4,0.2\n"
VALIDATION = "progress,iteration,metric,grad_sqr,grad_var\n10,10,0.5,1.0,2.0\n20,20,0.6,1.0,3.0\n"
WORKLOAD = "name,time,application,num_replicas,batch_size\none,0,small,1,8\ntwo,5,small,1,8\n"


def profile_folder(path: Path, **files: str) -> Path:
    """Write an application's files; `files` by the name before `.csv`, dashes as underscores."""
    folder = path / "profiles" / "small"
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        "placements": PLACEMENTS,
        "scalability": SCALABILITY,
        "validation-8": VALIDATION,
        "validation-16": VALIDATION,
    }
    whole |= {name.replace("_", "-"): text for name, text in files.items()}
    for name, text in whole.items():
        (folder / f"{name}.csv").write_text(text)
    return folder.parent
