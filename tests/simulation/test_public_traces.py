"""Every reader against the public files that it is for: the counts that are known of them."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from staves.errors import InputError
from staves.simulation import Availability, NodeList, ThroughputTable, Workload, read_file

DATA = Path(__file__).parents[2].parent / "shared" / "data"

pytestmark = pytest.mark.skipif(
    not (DATA / "philly").is_dir(), reason=f"the public traces are not in {DATA}"
)


def jobs(name: str) -> Workload:
    contents = read_file(DATA / name).contents
    assert isinstance(contents, Workload)
    return contents


def counted(contents: Workload | NodeList | ThroughputTable | Availability) -> dict[str, int]:
    return {one.what: one.lines for one in contents.counted}


def test_philly() -> None:
    workload = jobs("philly/philly.share-vcs.csv.gz")
    counts = counted(workload)
    assert counts["repeat another line"] == 63
    assert len(workload.requests) + 63 == 73_675
    assert counts["come before the line above them: all were sorted"] > 0.5 * 73_675
    seconds = [request.seconds for request in workload.requests if request.seconds is not None]
    assert (min(seconds), max(seconds)) == (1.0, 3_256_045.0)
    assert workload.requests[0].time == 0.0
    assert len({request.tenant for request in workload.requests}) == 11


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("pollux/workloads", 160),
        ("pollux/workloads-0.5", 80),
        ("pollux/workloads-1.5", 240),
        ("pollux/workloads-2.0", 320),
        ("pollux/workloads-realistic", 160),
        ("NO-LICENCE-STATED/sia/workloads/philly", 160),
        ("NO-LICENCE-STATED/sia/workloads/saturn", 160),
        ("NO-LICENCE-STATED/sia/workloads/newtrace", 960),
    ],
)
def test_pollux_and_sia(name: str, number: int) -> None:
    files = sorted((DATA / name).glob("workload-*.csv"))
    assert files
    for file in files:
        assert len(jobs(str(file.relative_to(DATA))).requests) == number


def test_gavel() -> None:
    files = sorted((DATA / "gavel/traces/msr").rglob("*.trace.gz"))
    traces = [jobs(str(file.relative_to(DATA))) for file in files]
    assert sum(len(trace.requests) for trace in traces) == 11_741
    assert max(len(trace.requests) for trace in traces) == 2_000
    table = read_file(DATA / "gavel/simulation_throughputs.json.gz").contents
    assert isinstance(table, ThroughputTable)
    assert counted(table)["have no throughput: it failed, or did not fit"] == 3
    measured = {(cell.job, cell.devices) for cell in table.cells}
    unknown = sum(
        (request.application, request.devices) not in measured
        for trace in traces
        for request in trace.requests
    )
    assert unknown == 1_059
    older = read_file(DATA / "gavel/notebooks-oracle_throughputs.json.gz").contents
    assert isinstance(older, ThroughputTable)
    assert {cell.devices for cell in older.cells} == {1}


def test_shockwave() -> None:
    for number in (120, 460, 900):
        (file,) = (DATA / "shockwave/traces").glob(f"{number}_*.trace")
        requests = jobs(str(file.relative_to(DATA))).requests
        assert len(requests) == number
        assert all(request.steps and request.seconds for request in requests)


def test_elasticflow() -> None:
    whole = jobs("elasticflow/traces_for_ElasticFlow/philly_103959.csv")
    assert len(whole.requests) == 876
    assert all(r.time < r.deadline < math.inf for r in whole.requests)
    small = jobs("elasticflow/traces_for_ElasticFlow/resnet_cifar_trace.csv")
    assert [request.name for request in small.requests] == [f"job-{n}" for n in (0, 1, 2, 4, 3)]
    for file in sorted((DATA / "elasticflow").glob("throughputs_*/*.csv")):
        table = read_file(file).contents
        assert isinstance(table, ThroughputTable)
        assert {cell.device_type for cell in table.cells} == {
            file.parent.name.partition("_")[2].lower()
        }
    for file in sorted((DATA / "elasticflow/cluster_specs").glob("*.csv")):
        listed = read_file(file).contents
        assert isinstance(listed, NodeList)


def test_chronus() -> None:
    workload = jobs("chronus/trace_job_Philly_MIX1.csv.gz")
    assert counted(workload)["ask for no device"] == 184  # 0.6 % of 30,940
    assert len(workload.requests) == 30_940 - 184
    assert max(request.time for request in workload.requests) / 86_400 == pytest.approx(14, abs=0.1)


def test_muri() -> None:
    for name, number in (("trace1.csv.gz", 1_494), ("trace2.csv.gz", 5_755)):
        together = name.replace(".csv", "_pr.csv")
        if not (DATA / "muri" / together).exists():
            together = together.removesuffix(".gz")
        apart, at_once = jobs(f"muri/{name}"), jobs(f"muri/{together}")
        assert len(apart.requests) == len(at_once.requests) == number
        assert {request.time for request in at_once.requests} == {0.0}
        assert max(request.time for request in apart.requests) < 200 * 86_400  # not 1000 times that
    for name, number in (("cluster_trace", 400), ("job_type_1", 992), ("job_type_2", 992)):
        assert len(jobs(f"muri/{name}.csv").requests) == number


def test_tiresias() -> None:
    assert len(jobs("tiresias/60_job.csv").requests) == 60
    assert len(jobs("tiresias/tf_job.csv").requests) == 1
    assert len(jobs("tiresias/yarn-gput1000.csv").requests) == 1_001


def test_openb_nodes() -> None:
    every = read_file(DATA / "openb/openb_node_list_all_node.csv").contents
    assert isinstance(every, NodeList)
    assert counted(every) == {"have no device": 310}
    assert len(every.cluster.nodes) == 1_523 - 310
    assert dict(every.cluster.configuration) == {
        "a10": 2,
        "g2": 4_392,
        "g3": 312,
        "p100": 265,
        "t4": 842,
        "v100": 195,
        "v100-32gb": 204,
    }
    assert {sum(n.devices.values()) for n in every.cluster.nodes} == {1, 2, 4, 8}


def test_openb_pods() -> None:
    workload = jobs("openb/openb_pod_list_default.csv.gz")
    counts = counted(workload)
    assert counts["ask for a fraction of a device"] == 3_078
    assert counts["were never scheduled"] == 897
    dropped = sum(one.lines for one in workload.counted if one.dropped)
    assert len(workload.requests) + dropped == 8_152
    span = workload.requests[-1].time - workload.requests[0].time
    assert span / 86_400 == pytest.approx(149 - 118, abs=1)  # without the thin head
    spec = Counter(r.types for r in jobs("openb/openb_pod_list_gpuspec33.csv.gz").requests)
    assert ("v100", "v100-32gb") in spec
    untimed = jobs("openb/openb_pod_list_multigpu20.csv.gz")
    assert all(request.seconds is None for request in untimed.requests)
    for name in ("cpu050", "gpushare40"):
        assert jobs(f"openb/openb_pod_list_{name}.csv.gz").requests


def test_spot_nodes() -> None:
    listed = read_file(DATA / "NO-LICENCE-STATED/alibaba-v2026-spot-gpu/node_info_df.csv").contents
    assert isinstance(listed, NodeList)
    assert len(listed.cluster.nodes) == 4_278
    assert dict(listed.cluster.configuration) == {
        "a10": 2_494,
        "a100-80gb": 3_456,
        "a800": 176,
        "gpu-series-1": 1_558,
        "gpu-series-2": 976,
        "h800": 1_752,
    }


def test_availability() -> None:
    one = read_file(DATA / "sailor/a100_trace.json").contents
    assert isinstance(one, Availability)
    assert set(one.devices["any"]) == {2, 3, 4}
    for file in sorted((DATA / "sailor").glob("gpu_trace_*.csv")):
        trace = read_file(file).contents
        assert isinstance(trace, Availability)
        assert set(trace.devices) <= {"a100", "v100"}
    sizes = read_file(DATA / "helios/Earth_gpu_number.csv").contents
    assert isinstance(sizes, Availability)
    assert sizes.times[0] == 0.0


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("throughput_long.csv.gz", 22_329),
        ("NO-LICENCE-STATED/lambda/lambda_pytorch_throughput_from_logs.csv", 3_199),
        ("nvidia-dle/dle_training_throughput.csv", 764),
        ("mlperf/mlperf_training_summary.csv", 1_240),
        ("tf-benchmarks-2017/tf_benchmarks_2017.csv", 140),
    ],
)
def test_throughputs(name: str, lines: int) -> None:
    """Every line is a cell, repeats one, tries another batch, or was dropped."""
    table = read_file(DATA / name).contents
    assert isinstance(table, ThroughputTable)
    lost = sum(one.lines for one in table.counted if one.dropped)
    merged = sum(
        one.lines for one in table.counted if one.what.startswith(("repeat a", "try another"))
    )
    assert len(table.cells) + lost + merged == lines
    assert all(cell.throughput > 0 for cell in table.cells)


def test_lambdas_own_tables() -> None:
    for name in ("lambda-tf/tf-train", "NO-LICENCE-STATED/lambda/pytorch-train"):
        for file in sorted(DATA.glob(f"{name}-throughput-*.csv")):
            assert isinstance(read_file(file).contents, ThroughputTable)
        for file in sorted(DATA.glob(f"{name}-bs-*.csv")):
            with pytest.raises(InputError, match="batch sizes, not throughputs"):
                read_file(file)


def test_what_is_not_known_is_one_error() -> None:
    known = 0
    for file in sorted(DATA.rglob("*")):
        if not file.is_file() or file.suffix == ".md" or file.stat().st_size > 200_000:
            continue
        if "traces" in file.parts and ("pollux" in file.parts or "sia" in file.parts):
            continue
        told = str(file)
        try:
            known += bool(read_file(file))
        except InputError as error:
            told = error.message
        assert str(file) in told
    assert known > 100
