"""Files from elsewhere: what they say, and one line for every way in which they are damaged."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staves.errors import InputError
from staves.simulation import SETUPS, Setup, read_profiles, read_workload, sia_cluster, submissions
from tests.simulation import small

HEAD = "name,time,application,num_replicas,batch_size\n"
TYPES = ("t4", "a100")


def written(path: Path, text: str | bytes, name: str = "w.csv") -> Path:
    file = path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", ":1:", "is empty"),
        (HEAD, ":2:", "no job"),
        ("name,time,application,num_replicas\na,0,b,1\n", ":1:", "batch_size is missing"),
        ("name,name,time,application,num_replicas,batch_size\n", ":1:", "name stands twice"),
        (HEAD + "a,0,b,1\n", ":2: batch_size:", "4 cells, but 5 columns"),
        (HEAD + "a,0,b,1,8,9\n", ":2: batch_size:", "6 cells"),
        (HEAD + "a,,b,1,8\n", ":2: time:", "is empty"),
        (HEAD + "a,-1,b,1,8\n", ":2: time:", "below 0"),
        (HEAD + "a,nan,b,1,8\n", ":2: time:", "not finite"),
        (HEAD + "a,inf,b,1,8\n", ":2: time:", "not finite"),
        (HEAD + "a,soon,b,1,8\n", ":2: time:", "no number"),
        (HEAD + "a,0,b,0,8\n", ":2: num_replicas:", "below 1"),
        (HEAD + "a,0,b,1.5,8\n", ":2: num_replicas:", "no whole number"),
        (HEAD + "a,0,b,1,1e300\n", ":2: batch_size:", "too large"),
        (HEAD + "a,0,b,1,8\n\na,1,b,1,8\n", ":4: name:", "stands twice"),
        (HEAD + 'a,0,"b,1,8\n', ":2:", "unexpected end"),
        (HEAD.encode() + b"a,0,\xff,1,8\n", ":2:", "not UTF-8"),
    ],
)
def test_damage_is_told_with_its_place(
    tmp_path: Path, text: str | bytes, place: str, problem: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_workload(file)
    assert f"{file}{place}" in error.value.message
    assert problem in error.value.message
    assert error.value.hint


def test_what_can_be_put_right_is_counted(tmp_path: Path) -> None:
    file = written(tmp_path, HEAD + "b,5,x,1,8\na,1,x,1,8\nb,5,x,1,8\nc,7,x,1,8\n")
    workload = read_workload(file)
    assert [request.name for request in workload.requests] == ["a", "b", "c"]
    assert [note.split(": ")[1].split()[0] for note in workload.notes] == ["1", "1"]


OWN = "name,time,application,num_replicas,batch_size,kind,minimum,maximum,weight,preemptible\n"


def test_our_own_columns_may_say_more(tmp_path: Path) -> None:
    text = OWN + "a,0,small,2,32,elastic,2,3,4.5,0\nb,1,small,2,32,,,,,\n"
    workload = read_workload(written(tmp_path, text))
    apps = {"small": small.application({"a": 1.0})}
    a, b = (job.view for job in submissions(workload, apps, small.cluster(a=2), "rigid"))
    assert (a.minimum, a.maximum, a.weight, a.elastic, a.mix) == (2, 3, 4.5, False, True)
    assert (b.minimum, b.maximum, b.weight, b.elastic, b.mix) == (2, 2, 1.0, True, False)
    forced = submissions(workload, apps, small.cluster(a=2), "rigid", forced="adaptive")
    assert [(job.view.minimum, job.view.maximum) for job in forced] == [(2, 3), (1, 8)]


@pytest.mark.parametrize(
    ("cells", "place", "problem"),
    [
        ("elastik,,,,", "kind", "unknown kind 'elastik'"),
        (",0,,,", "minimum", "below 1"),
        (",3,2,,", "maximum", "below the minimum"),
        (",,,0,", "weight", "above zero"),
        (",,,,yes", "preemptible", "neither 1 nor 0"),
    ],
)
def test_our_own_columns_are_checked(tmp_path: Path, cells: str, place: str, problem: str) -> None:
    with pytest.raises(InputError, match=f":2: {place}: .*{problem}"):
        read_workload(written(tmp_path, OWN + f"a,0,small,2,32,{cells}\n"))


def test_packed_files_are_read_and_broken_ones_refused(tmp_path: Path) -> None:
    packed = gzip.compress(small.WORKLOAD.encode())
    assert len(read_workload(written(tmp_path, packed, "w.csv.gz")).requests) == 2
    with pytest.raises(InputError, match="gzip"):
        read_workload(written(tmp_path, packed[:-9], "cut.csv.gz"))
    with pytest.raises(InputError, match="no such file"):
        read_workload(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="folder"):
        read_workload(tmp_path)


@given(st.binary(max_size=200), st.integers(0, 100))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_ends_in_a_traceback(tmp_path: Path, junk: bytes, at: int) -> None:
    whole = small.WORKLOAD.encode()
    file = written(tmp_path, whole[:at] + junk + whole[at:])
    told = str(file)
    try:
        assert read_workload(file).requests
    except InputError as error:
        told = error.message
    assert str(file) in told


def test_profiles_are_read_by_the_names_of_columns(tmp_path: Path) -> None:
    shuffled = "sync_time,local_bsz,placement,step_time\n0.0,8,1,0.1\n0.0,16,1,0.2\n0.1,8,44,0.3\n"
    for folder in (
        small.profile_folder(tmp_path / "one"),
        small.profile_folder(tmp_path / "other", placements=shuffled),
    ):
        app = read_profiles([folder], Setup(), TYPES)["small"]
        assert set(app.tables) == {"t4"}
        assert (app.reference, app.largest_batch) == (8, 16)
        assert app.statistics.epoch_ends.tolist() == [10.0, 20.0]
        curve = app.tables["t4"].curve((1,))
        assert curve is not None
        assert [float(x[0]) for x in curve.at(app.statistics.batches[:1] + 4)] == pytest.approx(
            [0.15, 0.0]
        )
        eight = app.tables["t4"].curve((4, 4))
        assert eight is not None
        assert eight.step.tolist() == [0.3]


def test_placements_are_canonical_and_folders_united(tmp_path: Path) -> None:
    one = small.profile_folder(
        tmp_path / "one",
        placements="placement,local_bsz,step_time,sync_time\n1,8,.1,0\n13,8,.4,.1\n31,16,.6,.1\n",
    )
    other = tmp_path / "two" / "profiles" / "small"
    other.mkdir(parents=True)
    (other / "placements-dgx-ext.csv").write_text(small.PLACEMENTS)
    app = read_profiles([one, other.parent], Setup(), TYPES)["small"]
    assert set(app.tables) == {"t4", "a100"}
    curve = app.tables["t4"].curve((3, 1))
    assert curve is not None
    assert curve.batch.tolist() == [8.0, 16.0]


@pytest.mark.parametrize(
    ("files", "file", "problem"),
    [
        ({"placements": "placement,local_bsz\n1,8\n"}, "placements.csv:1:", "step_time is missing"),
        (
            {"placements": small.PLACEMENTS + "1,,0.1,0\n"},
            "placements.csv:5: local_bsz:",
            "is empty",
        ),
        ({"placements": small.PLACEMENTS + "4a,8,.1,0\n"}, "csv:5: placement:", "one digit"),
        ({"placements": small.PLACEMENTS + "40,8,.1,0\n"}, "csv:5: placement:", "one digit"),
        ({"placements": small.PLACEMENTS + "1,8,0,0\n"}, "csv:5: step_time:", "above zero"),
        ({"placements": small.PLACEMENTS + "1,8,.1,.2\n"}, "csv:5: sync_time:", "do not fit"),
        (
            {"scalability": small.SCALABILITY + "3,2,8,.1,0\n"},
            "scalability.csv:3: num_replicas:",
            "2 devices on 3 nodes",
        ),
        ({"validation_8": "progress,grad_sqr,grad_var\n"}, "validation-8.csv:2:", "no epoch"),
        (
            {"validation_8": small.VALIDATION + "15,3,.1,1,1\n"},
            "validation-8.csv:4: progress:",
            "below that of the epoch before",
        ),
        (
            {"validation_8": small.VALIDATION + "30,3,.1,0,0\n"},
            "validation-8.csv:4: grad_sqr:",
            "no gradient",
        ),
        (
            {"validation_8": small.VALIDATION + "30,3,.1,1,1e151\n"},
            "validation-8.csv:4: grad_var:",
            "too large",
        ),
        (
            {"validation_8": small.VALIDATION + "1e16,3,.1,1,1\n"},
            "validation-8.csv:4: progress:",
            "too large",
        ),
    ],
)
def test_damaged_profiles_are_told(
    tmp_path: Path, files: dict[str, str], file: str, problem: str
) -> None:
    folder = small.profile_folder(tmp_path, **files)
    with pytest.raises(InputError) as error:
        read_profiles([folder], Setup(), TYPES)
    assert file in error.value.message
    assert problem in error.value.message


def test_gradients_of_any_scale_have_the_same_gain(tmp_path: Path) -> None:
    """A loss multiplied by a constant moves squares and variances alike, and no choice of batch."""
    gains = []
    for scale in ("", "e-20", "e20", "e140"):
        row = f"10,10,0.5,1.0{scale},2.0{scale}\n"
        text = "progress,iteration,metric,grad_sqr,grad_var\n" + row
        folder = small.profile_folder(
            tmp_path / f"of{scale}", validation_8=text, validation_16=text
        )
        app = read_profiles([folder], Setup(), TYPES)["small"]
        gains.append(app.statistics.gain(0, app.statistics.batches).tolist())
    assert gains[0] == pytest.approx([1.0, 3.0 / 2.0])
    for gain in gains[1:]:
        assert gain == pytest.approx(gains[0])


def test_profiles_of_other_types_are_none(tmp_path: Path) -> None:
    folder = small.profile_folder(tmp_path)
    with pytest.raises(InputError, match="no application"):
        read_profiles([folder], Setup(), ("h100",))
    with pytest.raises(InputError, match="no such folder"):
        read_profiles([tmp_path / "absent"], Setup(), TYPES)
    named = read_profiles([folder], Setup(), ("h100",), type_names={"": "h100"})
    assert set(named["small"].tables) == {"h100"}


def test_the_published_cluster_scales() -> None:
    assert dict(sia_cluster().configuration) == {"a100": 16, "rtx2080ti": 24, "t4": 24}
    assert sia_cluster(32).total == 2048
    with pytest.raises(InputError):
        sia_cluster(0)
    assert SETUPS["pollux"].pause_seconds == {}
