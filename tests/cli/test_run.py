"""`staves run`: what comes out, what goes to the script, and how scripts fail."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.launch import (
    Launched,
    Roll,
    cluster_file,
    command,
    ended,
    environment,
    staves_run,
)

ANNOUNCE = """
import os, signal, sys
rank = int(os.environ["RANK"])
def announce(roll, pid=None):
    with open(roll, "a") as file:
        file.write(f"{rank} {pid or os.getpid()}\\n")
"""


def write(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def roll(tmp_path: Path) -> Iterator[Roll]:
    roll = Roll(tmp_path / "roll")
    yield roll
    roll.close()


def last_line(done: Launched) -> str:
    return done.stderr.splitlines()[-1]


TALK = """
import os, sys
sys.stdout.write("€" * 100_000 + "\\n")
print("arguments", sys.argv[1:])
print("to stderr", file=sys.stderr)
"""


def test_standard_output_is_the_document_alone(tmp_path: Path) -> None:
    script = write(tmp_path, TALK)
    done = staves_run(tmp_path, script, "--lr", "0.1", "--flag", "--", "--json", "--min", "7")
    assert done.figures["steps"] == 0
    assert done.figures["local_batches"] == []
    assert "arguments ['--lr', '0.1', '--flag', '--json', '--min', '7']" in done.stderr
    assert "to stderr" in done.stderr
    assert done.stderr.count("€") == 100_000
    assert "\N{REPLACEMENT CHARACTER}" not in done.stderr


def test_without_json_the_scripts_output_keeps_its_place(tmp_path: Path) -> None:
    done = staves_run(tmp_path, write(tmp_path, TALK), "x", options=())
    assert done.status == 0
    assert done.stdout == "€" * 100_000 + "\narguments ['x']\n"
    assert "to stderr" in done.stderr
    assert "to stderr" not in done.stdout
    assert not re.search(r"\d+ steps", done.stderr), "a script that trained nothing has no table"


def test_options_stand_before_or_after_the_script(tmp_path: Path) -> None:
    script, devices = write(tmp_path, TALK), cluster_file(tmp_path)
    words = ["-m", "staves", "run", script, "one", "--devices", devices, "--max=1", "--json", "two"]
    done = command(words, tmp_path / "home")
    assert json.loads(done.stdout)["steps"] == 0
    assert "arguments ['one', 'two']" in done.stderr


def test_what_a_worker_finds_in_its_environment(tmp_path: Path) -> None:
    text = f"""
import json, os
keys = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "STAVES_HOME")
with open({str(tmp_path)!r} + "/rank-" + os.environ["RANK"], "w") as file:
    json.dump([os.environ[key] for key in keys], file)
"""
    assert staves_run(tmp_path, write(tmp_path, text), devices=2).status == 0
    for rank in ("0", "1"):
        found = json.loads((tmp_path / f"rank-{rank}").read_text())
        assert found == [rank, rank, "2", str(tmp_path / "home")]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_script_that_raises(tmp_path: Path, roll: Roll, options: tuple[str, ...]) -> None:
    text = ANNOUNCE + (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "announce(sys.argv[1]); announce(sys.argv[1], child.pid)\n"
        "if rank == 1:\n"
        "    raise ValueError('lost my way')\n"
        "signal.pause()\n"
    )
    script = write(tmp_path, text)
    done = staves_run(tmp_path, script, roll.path, devices=2, options=options)
    assert done.status == 1
    assert done.stdout == ""
    marked = re.search(
        r"^--- .* rank 1 \(box/local-cpu-1\) ---$(.*)^--- end",
        done.stderr,
        re.DOTALL | re.MULTILINE,
    )
    assert marked, done.stderr
    assert "Traceback (most recent call last)" in marked[1]
    assert "ValueError: lost my way" in marked[1]
    assert done.stderr.count("Traceback") == 1, "no traceback but the script's own"
    assert re.match(
        r"staves: the script failed on rank 1 .* exit status 1 \(.*\.log\)", last_line(done)
    )
    for line in roll.lines(2):  # all that had come up to say so
        assert ended(int(line.split()[1]), timeout=10)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("import sys; sys.exit(3)", "with exit status 3"),
        ("import sys; sys.exit('no data')", "with exit status 1"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "with signal SIGKILL"),
        ("this is no Python", "with exit status 1"),
    ],
)
def test_a_script_that_ends_badly(tmp_path: Path, text: str, how: str) -> None:
    done = staves_run(tmp_path, write(tmp_path, text))
    assert done.status == 1
    assert done.stdout == ""
    assert how in last_line(done)
    if "no data" in text:
        assert "\nno data\n" in done.stderr


TRAIN = """
import sys, torch, staves
run = staves.init(batch_size={batch}, split={split!r})
module = torch.nn.Linear(4, 1)
model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.1))
data = torch.utils.data.TensorDataset(torch.randn(64, 4))
for epoch in run.epochs(3):
    for (inputs,) in run.loader(data) if epoch == 0 else ():
        if run.committed_steps == 3 and run.rank == 1:
            raise ArithmeticError("rank 1 is at fault")
        run.backward(model(inputs).mean())
        optimizer.step()
"""


def test_the_rank_that_failed_first_is_named(tmp_path: Path) -> None:
    """The other rank waits in a collective and fails too, a moment later."""
    done = staves_run(tmp_path, write(tmp_path, TRAIN.format(batch=4, split="even")), devices=2)
    assert done.status == 1
    assert "the script failed on rank 1 " in last_line(done), done.stderr
    assert "ArithmeticError: rank 1 is at fault" in done.stderr
    assert done.stderr.count("Traceback") == 1


HUNGRY = {
    "forward": {"fixed": "1ms", "per_sample": "1ms"},
    "backward": {"fixed": "1ms", "per_sample": "1ms"},
    "min_batch": 8,
}


@pytest.mark.parametrize(
    ("batch", "split", "options", "said"),
    [
        (15, "auto", [], "16"),
        (32, [8, 8], [], "sums to 16, the batch is 32"),
        (32, "auto", ["--split", "9,9"], "sums to 18, the batch is 32"),
    ],
)
def test_what_only_the_script_can_know_is_refused_in_one_line_too(
    tmp_path: Path, batch: int, split: object, options: list[str], said: str
) -> None:
    script = write(tmp_path, TRAIN.format(batch=batch, split=split))
    done = staves_run(
        tmp_path,
        script,
        devices={"hungry": 2},
        emulate={"hungry": HUNGRY},
        options=["--json", *options],
    )
    assert done.status == 2
    assert done.stdout == ""
    assert said in last_line(done)
    assert "Traceback" not in done.stderr
    assert all(line.startswith("staves: ") for line in done.stderr.splitlines()), done.stderr


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    mounts = ["unshare", "--mount", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*mounts, "mount -t tmpfs none /mnt"], capture_output=True).returncode
    ):
        pytest.skip("no private mounts here")
    home = tmp_path / "home"
    home.mkdir()
    script = write(tmp_path, "print('x' * 100_000)")
    run = f"exec {sys.executable} -m staves run --json {script} --devices {cluster_file(tmp_path)}"
    for size, fill, status in (("64k", "64", 1), ("64k", "32", 0)):
        mount = f"mount -t tmpfs -o size={size} none {home}"
        filled = f"dd if=/dev/zero of={home}/full bs=1k count={fill} 2> /dev/null"
        done = subprocess.run(
            [*mounts, f"{mount} && {filled}; {run}"],
            env=environment(home),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        if status:
            (line,) = done.stderr.splitlines()
            assert re.search(r"No space left on device \(set STAVES_HOME", line), line
        else:  # the log is lost, the run is not
            assert "log lines are being lost" in done.stderr
            assert done.stderr.count("being lost") == 1
            assert json.loads(done.stdout)["steps"] == 0
