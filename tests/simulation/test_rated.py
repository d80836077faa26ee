"""Jobs of which throughputs are all that is known: Gavel's traces, ElasticFlow's tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from staves.errors import InputError
from staves.simulation import SETUPS, Experiment, material, read_workload, run
from staves.simulation._rated import RatedWork
from staves.simulation.readers import read_tables, read_throughputs

CLUSTER = "nodes:\n  - {count: 2, devices: {v100: 2}}\n  - {devices: {k80: 2}}\n"
THROUGHPUTS = {
    "v100": {"('net', 1)": {"null": 10.0, "('other', 1)": [1, 2]}, "('net', 2)": {"null": 18.0}},
    "v100_unconsolidated": {"('net', 2)": {"null": 12.0}},
    "k80": {"('net', 1)": {"null": 2.0}, "('net', 2)": {"null": 0.0}},
}
MSR = "net\tcmd %s\t-n\t1\t{steps}\t{at}\t{devices}\n"


def files(path: Path, trace: str, throughputs: object = THROUGHPUTS) -> tuple[Path, Path, Path]:
    found = path / "c.yaml", path / "w.trace", path / "t.json"
    text = throughputs if isinstance(throughputs, str) else json.dumps(throughputs)
    for file, content in zip(found, (CLUSTER, trace, text), strict=True):
        file.write_text(content)
    return found


def test_a_job_takes_its_steps_over_its_throughput(tmp_path: Path) -> None:
    trace = MSR.format(steps=1000, at=5.0, devices=1) + MSR.format(steps=900, at=9, devices=2)
    cluster, work, rates = files(tmp_path, trace)
    made = material(str(cluster), str(work), [rates], SETUPS["sia"])
    done = run(Experiment("fifo", *made))
    assert [job["jct_seconds"] for job in done["jobs"]] == pytest.approx([30 + 100, 30 + 50])


def test_all_layouts_tell_the_same(tmp_path: Path) -> None:
    lines = {
        7: "net\tc\t-n\t1\t100\t3.5\t2\n",
        10: "net\tc\td\t-n\t1\t100\t2\t1\t-1\t3.5\n",
        12: "net\tc\td\t-n\t1\t100\t2\tstatic\t1\t-1\t50\t3.5\n",
    }
    for columns, line in lines.items():
        file = tmp_path / f"{columns}.trace"
        file.write_text(line)
        (request,) = read_workload(file).requests
        assert (request.application, request.time, request.devices, request.steps) == (
            "net",
            3.5,
            2,
            100.0,
        )


def test_what_cannot_run_is_dropped_and_counted(tmp_path: Path) -> None:
    trace = "".join(MSR.format(steps=10, at=t, devices=n) for t, n in ((4, 1), (2, 0), (1, 8)))
    cluster, work, rates = files(tmp_path, trace)
    _, jobs, _ = material(str(cluster), str(work), [rates], SETUPS["sia"])
    assert [request.name for request in jobs.requests] == ["job-1"]
    assert [note.split(": ")[1].split()[0] for note in jobs.notes] == ["1", "1", "1"]


def test_devices_apart_have_their_own_throughput(tmp_path: Path) -> None:
    table = read_throughputs(files(tmp_path, "")[2], 30.0)["net"]
    work = RatedWork(table, ("k80", "v100"), (2, 2), 100.0)
    assert [work.rate(0, p) for p in (((), (2,)), ((), (1, 1)), ((2,), ()), ((1,), (1,)))] == [
        18.0,
        12.0,
        0.0,
        0.0,
    ]
    assert work.rates(0)(np.array([[0, 2], [1, 0], [0, 3]])).tolist() == [18.0, 2.0, 0.0]
    assert not work.measured(0, ((1, 1), ()))


TABLE = "global_batch_size,1,2,4,16\n64,10,18,30,nan\n128,5,9,16,50\n"
JOBS = "job_id,submit_time,model_name,ddl,batch_size,num_gpu,duration,iteration\n"


def tables(path: Path, **texts: str) -> list[Path]:
    """Folders of ElasticFlow's tables, one for each device type, of one model."""
    folders = []
    for kind, text in texts.items():
        folder = path / f"throughputs_{kind}"
        folder.mkdir()
        (folder / "net.csv").write_text(text)
        folders.append(folder)
    return folders


def test_jobs_run_at_the_speeds_of_elasticflows_tables(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("nodes:\n  - {count: 2, devices: {a100: 8}}\n")
    lines = ["0,5,net,500,64,2,100,1800", "1,5,net,500,128,16,100,1000", "2,6,other,9,64,1,9,9"]
    (tmp_path / "w.csv").write_text(JOBS + "\n".join(lines))
    folders = tables(tmp_path, A100=TABLE)
    made = material(str(tmp_path / "c.yaml"), str(tmp_path / "w.csv"), folders, SETUPS["pollux"])
    assert [one.application for one in made[1].requests] == [
        "net (batch size 64)",
        "net (batch size 128)",
    ]
    done = run(Experiment("fifo", *made, "rigid"))
    assert [job["jct_seconds"] for job in done["jobs"]] == pytest.approx([130, 130 + 30 + 20])
    assert all(job["measured"] for job in done["jobs"])
    assert done["summary"]["deadlines"] == {"jobs": 2, "met": 2, "share": 1.0}
    (dropped,) = [note for note in made[1].counted if note.dropped]
    assert str(dropped).startswith("1 line")


def test_tables_of_several_types_are_one(tmp_path: Path) -> None:
    folders = tables(tmp_path, A100=TABLE, T4="global_batch_size,1,2\n64,1,1.5\n")
    table = read_tables(folders, 30.0)["net (batch size 64)"]
    work = RatedWork(table, ("a100", "t4"), (8, 4), 100.0)
    assert work.rates(0)(np.array([[2, 0], [0, 2], [3, 0], [16, 0]])).tolist() == [18, 1.5, 0, 0]
    assert work.measured(0, ((2,), ()))
    assert not work.measured(0, ((1, 1), ()))


def test_tables_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "w.csv").write_text(JOBS + "0,5,net,500,64,2,100,1800\n")
    (folder,) = tables(tmp_path, A100=TABLE)
    again = tmp_path / "more" / "throughputs_A100"
    again.mkdir(parents=True)
    (again / "net.csv").write_text(TABLE)
    empty = tmp_path / "empty"
    empty.mkdir()
    for profiles, problem in (
        ([folder, again], "holds throughputs of a100, too"),
        ([folder, empty], "is no folder of throughputs"),
        ([folder], "no job has a throughput on k80, v100"),
    ):
        with pytest.raises(InputError, match=problem):
            material(str(tmp_path / "c.yaml"), str(tmp_path / "w.csv"), profiles, SETUPS["pollux"])


@pytest.mark.parametrize(
    ("trace", "place"),
    [
        ("net\tc\t-n\t1\n", "w.trace:1: 4 tab-separated"),
        (MSR.format(steps=0, at=1, devices=1), "w.trace:1: total_steps: 0 is below 1"),
        (MSR.format(steps=5, at="nan", devices=1), "w.trace:1: arrival: 'nan' is not finite"),
        (MSR.format(steps=5, at=-1, devices=1), "w.trace:1: arrival: -1 is below 0"),
        (MSR.format(steps=5, at=1, devices="x"), "w.trace:1: scale_factor: 'x' is no number"),
        ("", "w.trace:1: is empty"),
        (MSR.format(steps=5, at=1, devices=0), "w.trace:2: no job is left"),
    ],
)
def test_damaged_traces_are_told(tmp_path: Path, trace: str, place: str) -> None:
    cluster, work, rates = files(tmp_path, trace)
    with pytest.raises(InputError) as error:
        material(str(cluster), str(work), [rates], SETUPS["sia"])
    assert place in error.value.message


@pytest.mark.parametrize(
    ("throughputs", "problem"),
    [
        ('{"v100": ', "t.json:1: column 10: not JSON"),
        ([], "no mapping of worker types"),
        ({"v100": 3}, "'v100': holds no mapping"),
        ({"v100": {"net": {"null": 1}, "('net', 1)": {}}}, "is not ('job type', devices)"),
        ({"v100": {"('net', 1)": {"null": -1}}}, "must be a number"),
        ({"v100": {"('net', 1)": {}}}, "must be a number"),
    ],
)
def test_damaged_throughputs_are_told(tmp_path: Path, throughputs: object, problem: str) -> None:
    cluster, work, rates = files(tmp_path, MSR.format(steps=5, at=0, devices=1), throughputs)
    with pytest.raises(InputError) as error:
        material(str(cluster), str(work), [rates], SETUPS["sia"])
    assert problem in error.value.message
