"""Jobs of which a duration is all that is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from staves.errors import InputError
from staves.simulation import SETUPS, Experiment, material, run
from staves.simulation._declared import DeclaredApplication, DeclaredWork

CLUSTER = "nodes:\n  - {count: 2, devices: {t4: 4}}\n  - {devices: {a100: 2}}\n"
PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:00:00,600,2,1200,a
2017-10-09 08:00:00,60,4,240,b
2017-10-09 09:00:00,60,64,3840,b
"""


def files(path: Path, jobs: str = PHILLY, cluster: str = CLUSTER) -> tuple[str, str]:
    (path / "c.yaml").write_text(cluster)
    (path / "w.csv").write_text(jobs)
    return str(path / "c.yaml"), str(path / "w.csv")


def test_a_job_takes_its_declared_time_on_what_it_asked_for(tmp_path: Path) -> None:
    made = material(*files(tmp_path), [], SETUPS["sia"])
    done = run(Experiment("fifo", *made, kind="rigid"))
    assert [job["finished"] is not None for job in done["jobs"]] == [True, True]
    for job, seconds, devices in zip(done["jobs"], (600, 60), (2, 4), strict=True):
        (span,) = job["spans"]
        assert sum(span["devices"].values()) == devices
        if set(span["devices"]) == {"t4"}:
            assert job["jct_seconds"] == pytest.approx(30 + seconds)
        assert not job["measured"]
    assert done["assumed"]
    assert any("2 of 2 jobs have no profile" in line for line in done["assumed"])


def test_what_does_not_fit_is_dropped_and_counted(tmp_path: Path) -> None:
    _, workload, _ = material(*files(tmp_path), [], SETUPS["sia"])
    assert [str(one) for one in workload.counted] == [
        "1 lines are jobs for more devices than the cluster has, and were dropped"
    ]
    other = "nodes:\n  - {devices: {h100: 1}}\n"
    with pytest.raises(InputError, match="no job fits"):
        material(*files(tmp_path, PODS, other), [], SETUPS["sia"])


_TIMES = "creation_time,deletion_time,scheduled_time"
PODS = f"""name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,{_TIMES}
a,1,1,1,1000,T4|P100,0,100,0
b,1,1,1,1000,V100M16,10,100,10
"""


def test_alternatives_of_types_are_kept_to(tmp_path: Path) -> None:
    cluster = "nodes:\n  - {devices: {a100: 8}}\n  - {devices: {t4: 1, v100: 1}}\n"
    made = material(*files(tmp_path, PODS, cluster), [], SETUPS["sia"])
    done = run(Experiment("srtf", *made))
    assert [set(job["device_seconds_by_type"]) for job in done["jobs"]] == [{"t4"}, {"v100"}]


def test_rates_follow_the_documented_law() -> None:
    work = DeclaredWork(
        DeclaredApplication("net", (("t4", 1.0), ("a100", 2.0))), ("a100", "t4"), 4, 9.0
    )
    own = 4 / 1.09
    table = np.array([[0, 4], [0, 1], [1, 0], [1, 1], [0, 8]])
    expected = [1.0, 1 / own, 2 / own, 3 / 1.03 / own, 8 / 1.21 / own]
    assert work.rates(0)(table) == pytest.approx(expected)
    assert work.rate(0, ((), (2, 2))) == pytest.approx(1.0)
    assert work.marks == (9.0,)


def test_a_list_of_nodes_is_a_cluster(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,2,P100\nn1,1,1,0,\n")
    cluster, _, _ = material(str(nodes), files(tmp_path)[1], [], SETUPS["sia"])
    assert dict(cluster.configuration) == {"p100": 2}
    assert any("have no device" in note for note in cluster.warnings)
