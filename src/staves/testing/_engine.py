"""What every engine must do."""

from __future__ import annotations

import json
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from staves.engines._base import Engine
from staves.errors import StavesError
from staves.testing._engine_job import Job

WAIT = "while [ ! -e go ]; do sleep 0.05; done"
"""A shell command that waits for the test."""


class EngineConformance(ABC):
    """Inherit this in a test module of an engine, and say how one is made.

    Its cluster must have four `local-cpu` devices or emulated ones at least.
    """

    @abstractmethod
    def make(self, home: Path) -> Engine:
        """Return an engine that keeps its state in that folder; called again, over that state."""

    @pytest.fixture
    def engines(self, tmp_path: Path) -> Callable[[], Engine]:
        """Make engines over one state."""
        return lambda: self.make(tmp_path / "home")

    @pytest.fixture
    def job(self, engines: Callable[[], Engine], tmp_path: Path) -> Iterator[Job]:
        """A job that is about to be launched."""
        job = Job(engines, tmp_path / "work")
        yield job
        job.abandon()

    # -- commands of any kind

    def test_a_job_that_was_never_launched_is_absent(self, job: Job) -> None:
        assert job.status().phase == "absent"
        assert job.engine.logs(job.name, 1) == {}
        job.stop(save=True)

    def test_launched_twice_it_runs_once(self, job: Job) -> None:
        command = f"echo $RANK >> ran; {WAIT}"
        for _ in range(3):
            job.launch(command, job.devices[:2])
        job.until(lambda _: len(job.lines("ran")) == 2, "both ranks")
        job.engine = job.engines()  # as a controller that is started again
        job.launch(command, job.devices[:2])
        (job.folder / "go").touch()
        ended = job.end()
        job.launch(command, job.devices[:2])
        assert job.status() == ended
        assert ended.ended is not None
        assert ended.ended.end == "finished"
        assert ended.elastic is False
        assert sorted(job.lines("ran")) == ["0", "1"]

    def test_each_device_has_its_process(self, job: Job) -> None:
        words = '$RANK/$WORLD_SIZE" "$(pwd)" "$EXTRA" "$STAVES_DEVICE'
        command = f'printf "%s\\n" "{words}" > out-$RANK'
        job.launch(command, job.devices[:2], environ={"EXTRA": "a b"})
        job.end()
        for rank in range(2):
            place, folder, extra, device = job.lines(f"out-{rank}")
            assert (place, folder, extra) == (f"{rank}/2", str(job.folder), "a b")
            assert json.loads(device)["name"] == job.devices[rank].name

    def test_once_with_all_devices(self, job: Job) -> None:
        command = 'echo "$STAVES_DEVICES" > devices; env | grep -c ^RANK= > ranks; true'
        job.launch(command, job.devices[:3], per_device=False)
        assert job.end().elastic is False
        (line,) = job.lines("devices")
        assert [d["name"] for d in json.loads(line)] == [d.name for d in job.devices[:3]]
        assert job.lines("ranks") == ["0"]

    def test_a_command_that_fails_says_how(self, job: Job) -> None:
        job.launch("echo x >> ran; echo the last words >&2; exit 7", job.devices[:1])
        ended = job.end().ended
        assert ended is not None
        assert (ended.end, ended.status) == ("failed", 7)
        assert "exit status 7" in ended.reason
        assert "the last words" in ended.reason
        assert "the last words" in job.engine.logs(job.name, 1)["rank-0"].read_text()
        assert job.lines("ran") == ["x"]

    def test_one_that_is_killed_is_not_run_again(self, job: Job) -> None:
        job.launch("echo x >> ran; kill -9 $$", job.devices[:1])
        ended = job.end().ended
        assert ended is not None
        assert (ended.end, ended.status) == ("failed", -9)
        assert job.lines("ran") == ["x"]

    def test_without_its_folder_nothing_runs(self, job: Job) -> None:
        with pytest.raises(StavesError, match="no such folder"):
            job.launch("echo x > ran", job.devices[:1], workdir=job.folder / "absent")
        assert job.status().phase == "absent"

    @pytest.mark.parametrize("save", [False, True])
    def test_stopped_it_ends_as_it_stands(self, job: Job, save: bool) -> None:
        job.launch(f"echo x >> ran; {WAIT}", job.devices[:2])
        job.until(lambda _: len(job.lines("ran")) == 2, "both ranks")
        job.stop(save=save)
        job.stop(save=save)
        ended = job.end().ended
        assert ended is not None
        assert ended.end == "stopped"
        job.stop(save=save)
        assert job.status().ended == ended

    def test_what_will_not_end_is_made_to(self, job: Job) -> None:
        job.launch(f"trap '' TERM; echo x >> ran; {WAIT}", job.devices[:1])
        job.until(lambda _: job.lines("ran"), "its start")
        job.stop(save=False, grace=0.5)
        ended = job.end().ended
        assert ended is not None
        assert ended.end == "stopped"

    def test_stopped_before_it_has_started(self, job: Job) -> None:
        job.launch(f"echo x >> ran; {WAIT}", job.devices[:1])
        job.stop(save=True)
        ended = job.end().ended
        assert ended is not None
        assert ended.end == "stopped"

    def test_what_is_not_elastic_keeps_its_devices(self, job: Job) -> None:
        job.launch(f"echo x >> ran; {WAIT}", job.devices[:2])
        job.until(lambda _: len(job.lines("ran")) == 2, "both ranks")
        job.resize(job.devices[:3], request=1)
        job.until(lambda status: status.request == 1, "the request")
        (job.folder / "go").touch()
        status = job.end()
        assert status.devices == tuple(device.name for device in job.devices[:2])
        assert job.lines("ran") == ["x", "x"]

    # -- training

    def test_it_grows_and_shrinks_to_named_devices(self, job: Job) -> None:
        first, second, third, fourth = job.devices[:4]
        job.train([first, second])
        status = job.until_on([first, second])
        assert status.elastic is True
        job.resize([first, second, fourth, third], request=2)
        job.resize([first], request=1)  # an old one, late
        status = job.until_on([first, second, fourth, third])
        assert status.request == 2
        job.resize([fourth, third], request=3)
        status = job.until_on([fourth, third])
        assert (status.request, status.wanted) == (3, (fourth.name, third.name))
        job.allow(None)
        status = job.end()
        assert status.ended is not None
        assert status.ended.end == "finished", job.log()
        assert status.ended.figures["samples"] == status.progress["total_samples"] == 1800
        assert status.progress["samples"] == 1800
        assert status.progress["metrics"] == {"epochs": 30.0}
        # Those that come and those that go need not do so together.
        assert [span["devices"] for span in status.spans][:: len(status.spans) - 1] == [
            [first.name, second.name],
            [fourth.name, third.name],
        ]
        assert sum(span["steps"] for span in status.spans) == 150
        for before, span in zip(status.spans, status.spans[1:], strict=False):
            assert before["since"] <= before["until"] <= span["since"] <= span["until"]
            assert span["pause_seconds"] > 0
            assert sum(span["local_batches"]) == 12
        job.prove()

    def test_saved_it_goes_on_on_other_devices(self, job: Job) -> None:
        job.train(job.devices[:3])
        before = job.until_on(job.devices[:3])
        job.stop(save=True)
        status = job.end(crawl=True)  # ranks wait in the script for the next step
        assert status.ended is not None
        assert status.ended.end == "saved", job.log()
        step = job.saved_step()
        assert step >= before.progress["step"]
        assert status.progress["step"] == step
        job.attempt = 2
        job.train(job.devices[2:4], steps=step)
        status = job.until_on(job.devices[2:4])
        assert status.spans[0]["first_step"] == step
        job.allow(None)
        status = job.end()
        assert status.ended is not None
        assert status.ended.end == "finished", job.log()
        job.prove()

    def test_one_that_is_lost_as_it_saves_is_replaced(self, job: Job) -> None:
        job.train(job.devices[:2])
        job.until_on(job.devices[:2])
        (job.folder / "die").touch()
        job.stop(save=True)
        status = job.end(crawl=True)
        assert not (job.folder / "die").exists()
        assert status.ended is not None
        assert status.ended.end == "saved", job.log()
        assert job.saved_step() == status.progress["step"]

    def test_a_checkpoint_that_never_comes_is_not_waited_for(self, job: Job) -> None:
        job.train(job.devices[:2])
        job.until_on(job.devices[:2])
        # The script lets no further step begin, so no boundary comes.
        job.stop(save=True, grace=3600)
        job.stop(save=True, grace=0.5)
        ended = job.end().ended
        assert ended is not None
        assert ended.end == "stopped"

    def test_a_script_of_ours_that_fails_says_its_error(self, job: Job) -> None:
        (job.folder / "bad.py").write_text("import staves\nstaves.init(batch_size=0)\n")
        job.launch(f"{shlex.quote(sys.executable)} bad.py", job.devices[:1])
        ended = job.end().ended
        assert ended is not None
        assert ended.end == "failed"
        assert "batch_size" in ended.reason
