"""`staves profile`: what it tells of the devices, and what it leaves alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from staves.cli._expectation import declared_model, expectation, known_model
from staves.cli._knowledge import Learned, earlier_run
from staves.engines.local import RunFolder
from staves.hardware import read_cluster
from staves.steptime import integer_split, read_model
from tests.training.launch import cluster_file, command, staves_run

PACES = {
    name: {
        "forward": {"fixed": "4ms", "per_sample": f"{pace}ms"},
        "backward": {"fixed": "6ms", "per_sample": f"{2 * pace}ms"},
    }
    for name, pace in (("fast", 0.5), ("slow", 1.5))
}
SCRIPT = """
import sys, torch, staves
torch.manual_seed(0)
run = staves.init(batch_size=24, checkpoint="mine", checkpoint_every="1s")
model = torch.nn.Linear(4, 1)
model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
batches = run.loader(torch.utils.data.TensorDataset(torch.randn(24 * 20, 4)))
for epoch in run.epochs(int(sys.argv[1])):
    for (inputs,) in batches:
        run.backward(model(inputs).square().mean())
        optimizer.step()
        optimizer.zero_grad()
print("it came to its end")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_it_measures_each_device_and_touches_no_checkpoint(tmp_path: Path, script: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "fence.json").write_text('{"token": "of another run"}')
    devices = cluster_file(tmp_path, {"fast": 1, "slow": 1}, PACES)
    words = ["-m", "staves", "profile", script, "1000", "--devices", devices, "--json"]
    done = command([*words, "--output", "steps.json"], tmp_path / "home", cwd=tmp_path)
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    assert "it came to its end" not in done.stderr
    assert [path.name for path in mine.iterdir()] == ["fence.json"]
    assert "of another run" in (mine / "fence.json").read_text()
    # The file says the same, and plan reads it.
    model = read_model(tmp_path / "steps.json")
    assert [device.name for device in model.devices] == ["box/fast-0", "box/slow-0"]
    own = next(each for each in told["predictions"] if each["batch"] == told["batch"] == 24)
    assert own["local_batches"] == list(integer_split(model, 24).local_batches)
    assert told["emulated"]
    assert not told["assumed"]
    fast, slow = own["local_batches"]
    assert fast > slow, "the fast device was told from the slow one"
    # The next run of the script knows what to expect, and `plan` can use the file.
    earlier = earlier_run(tmp_path / "home", script, 24)
    assert earlier is not None
    assert earlier.batch == 24
    again = known_model(earlier.knowledge, read_cluster(devices).devices())
    assert again is not None
    assert integer_split(again, 24).local_batches == (fast, slow)
    run = staves_run(
        tmp_path, script, "1", devices={"fast": 1, "slow": 1}, emulate=PACES, options=()
    )
    expected = f"expected, by run {earlier.run}, of a batch of 24: split {fast},{slow}:"
    assert expected in run.stderr
    assert run.stderr.index(expected) < run.stderr.index("measuring an even split")


def test_one_device_alone_is_told_by_its_step(tmp_path: Path, script: Path) -> None:
    devices = cluster_file(tmp_path, {"fast": 1}, PACES)
    words = ["-m", "staves", "profile", script, "1000", "--devices", devices]
    done = command(words, tmp_path / "home", cwd=tmp_path)
    assert done.status == 0, done.stderr
    assert "a tenth of a step is taken not to grow" in done.stdout
    assert "EMULATED" in done.stdout
    assert re.search(r"^ *24 \* ", done.stdout, re.MULTILINE)


def test_what_ran_out_of_memory_is_in_the_file(tmp_path: Path, script: Path) -> None:
    """Both where the devices are told apart and for one alone."""
    forward = "    def forward(self, x):\n        if len(x) > 9 and run.rank == run.world_size - 1:"
    refusal = "\n            raise torch.OutOfMemoryError()\n        return super().forward(x)\n"
    limited = SCRIPT.replace(
        "model = torch.nn.Linear",
        f"class Limited(torch.nn.Linear):\n{forward}{refusal}model = Limited",
    )
    script.write_text(limited)
    for counts in ({"fast": 1, "slow": 1}, {"slow": 1}):
        devices = cluster_file(tmp_path, counts, PACES)
        words = ["-m", "staves", "profile", script, "1000", "--devices", devices]
        done = command([*words, "--output", "steps.json"], tmp_path / "home", cwd=tmp_path)
        assert done.status == 0, done.stderr
        *others, last = read_model(tmp_path / "steps.json").devices
        assert last.max_batch is not None
        assert 1 <= last.max_batch <= 9
        assert all(device.max_batch is None for device in others)


def test_a_script_that_is_too_short_is_a_failure(tmp_path: Path, script: Path) -> None:
    devices = cluster_file(tmp_path, {"fast": 1, "slow": 1}, PACES)
    words = ["-m", "staves", "profile", script, "1", "--devices", devices, "--json"]
    done = command(words, tmp_path / "home", cwd=tmp_path)
    assert done.status == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("staves: the script ended after 20 steps, before all was measured")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("absent.py",), "absent.py: no such script"),
        (("train.py", "--output", "nowhere/x.json"), "--output: nowhere is not a folder"),
        (("train.py", "--batch", "0"), "--batch: 0"),
        (("train.py", "--devices", "absent.yaml"), "absent.yaml"),
    ],
)
def test_wrong_use_ends_in_one_line(
    tmp_path: Path, script: Path, options: tuple[str, ...], expected: str
) -> None:
    assert script.exists()
    done = command(["-m", "staves", "profile", *options], tmp_path / "home", cwd=tmp_path)
    assert done.status == 2
    assert done.stderr.startswith(f"staves: {expected}")
    assert done.stderr.count("\n") == 1


def test_declared_durations_tell_what_to_expect(tmp_path: Path) -> None:
    devices = read_cluster(cluster_file(tmp_path, {"fast": 1, "slow": 1}, PACES)).devices()
    model = declared_model(devices)
    assert model is not None
    # 10 ms + 1.5 ms a sample against 10 ms + 4.5 ms: 18 and 6 samples take 37 ms each.
    assert expectation(model, 24) == (
        "split 18,6: step 37.0 ms, even split 64.0 ms: 1.73 x as fast"
    )
    real = read_cluster(cluster_file(tmp_path, {"fast": 1, "local-cpu": 1}, PACES)).devices()
    assert declared_model(real) is None


def test_knowledge_of_other_devices_tells_nothing(tmp_path: Path) -> None:
    devices = read_cluster(cluster_file(tmp_path, {"fast": 1, "slow": 1}, PACES)).devices()
    line = [0.01, 0.001, 0.0]
    known: dict[str, Any] = {"lines": {"type fast": [line, line]}, "ready": [1.0], "seconds": [0.0]}
    assert known_model({**known, "world_size": 2}, devices) is None
    both = {**known, "lines": {**known["lines"], "box/slow-0": [line, line]}}
    assert known_model({**both, "world_size": 2}, devices) is not None
    assert known_model({**both, "world_size": 1}, devices) is None, "nothing was shared"


def test_void_runs_and_other_batches_tell_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    progress = {"kind": "progress", "step": 1, "step_seconds": None}
    known = {"kind": "knowledge", "knowledge": {"lines": {"x": []}}}

    def train(name: str, *, emulated: bool) -> Learned:
        learned = Learned(RunFolder.create(tmp_path, name), script, emulated=emulated)
        for batch in (24, 48):  # it adapts: what counts is where it starts
            learned.message(0, {**progress, "batch": batch})
        learned.message(0, known)
        return learned

    learned = train("a", emulated=True)
    assert earlier_run(tmp_path, script, 24) is None, "nobody knows yet whether it is void"
    learned.ended(void=True)
    assert earlier_run(tmp_path, script, 24) is None
    learned.ended(void=False)
    assert earlier_run(tmp_path, script, 24) is not None
    assert earlier_run(tmp_path, script, 48) is None
    other = tmp_path / "real"
    Learned(RunFolder.create(other, "b"), script, emulated=False).message(0, known)
    assert earlier_run(other, script, 24) is None, "its batch is not known"


def test_a_run_that_cannot_be_read_counts_as_absent(tmp_path: Path) -> None:
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"script": 3}')):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "knowledge.json").write_text(text)
    assert earlier_run(tmp_path, tmp_path / "train.py", 24) is None
