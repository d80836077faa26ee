"""`up` and `down` with real processes: a controller that stands on its own, and its end."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import staves
from staves.engines.agents import AGENT_TOKEN
from staves.errors import InputError, StavesError
from staves.service import Client, ServiceFolder, Settings, down, up
from staves.service._facade import Document
from staves.service._leftovers import MARK

FAKE = "tests.service.fake:build"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceFolder]:
    paths = [str(Path(staves.__file__).parents[1]), str(ROOT)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    for name in ("STAVES_URL", "STAVES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    folder = ServiceFolder(tmp_path / "home")
    yield folder
    if folder.state != "absent":
        down(folder, grace=60)


def settings(folder: ServiceFolder, **options: object) -> Settings:
    return Settings(folder.home, controller=FAKE, **options)  # type: ignore[arg-type]


def reap(pid: int) -> None:
    """Wait for a controller, a child of this process until it has ended."""
    os.waitpid(pid, 0)


def test_up_tells_where_it_is_and_down_ends_it(folder: ServiceFolder) -> None:
    told = up(settings(folder))
    assert told["data_dir"] == str(folder.home)
    assert told["token_file"] == str(folder.token_file)
    assert stat.S_IMODE(folder.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert (folder.state, folder.pid) == ("up", told["pid"])
    assert httpx.get(f"{told['url']}/healthz").json() == {"ok": True}
    assert httpx.get(f"{told['url']}/api/v1/jobs").status_code == 401
    with Client(folder.home, environ={}) as client:
        assert client.health()["pid"] == told["pid"]
    ended = down(folder, grace=60)
    reap(told["pid"])
    assert (ended.was, ended.forced, ended.leftovers) == ("up", False, 0)
    assert folder.state == "absent"
    assert down(folder, grace=60).was == "absent"


def test_it_stands_on_its_own(folder: ServiceFolder) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        pid = up(settings(folder))["pid"]
    finally:
        os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == ""  # ends only when nobody has the other end
    assert os.getsid(pid) == pid
    open_files = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}  # noqa: PTH115
    assert str(folder.log_file) in open_files
    assert not any("/dev/pts" in file for file in open_files)
    down(folder, grace=60)
    reap(pid)


def test_a_second_one_is_refused_and_named(folder: ServiceFolder) -> None:
    told = up(settings(folder))
    with pytest.raises(InputError, match=f"process {told['pid']} at {told['url']}"):
        up(settings(folder))
    # Whoever comes at the same moment finds the lock taken.
    done = controller(folder)
    assert done.returncode == 2
    assert f"a service runs already: process {told['pid']}" in done.stderr
    assert httpx.get(f"{told['url']}/healthz").is_success
    down(folder, grace=60)
    reap(told["pid"])


def test_of_many_at_once_one_is_the_controller(folder: ServiceFolder) -> None:
    command = [sys.executable, "-m", "staves.service", *settings(folder).arguments()]
    started = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(3)
    ]
    with Client(folder.home, environ={}, patience=120) as client:
        while folder.state == "absent":  # the client would take that for an answer
            assert any(process.poll() is None for process in started)
        pid = client.health()["pid"]
    losers = [process for process in started if process.pid != pid]
    assert len(losers) == 2
    assert [process.wait() for process in losers] == [2, 2]
    down(folder, grace=60)
    assert sum(process.wait() for process in started) == 4


def controller(folder: ServiceFolder) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "staves.service", *settings(folder).arguments()],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_port_may_be_fixed_and_in_use(folder: ServiceFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--port: {port} is in use"):
            up(settings(folder, port=port))
    assert folder.state == "absent"
    told = up(settings(folder, port=port))
    assert told["url"] == f"http://127.0.0.1:{port}"
    down(folder, grace=60)
    reap(told["pid"])


def test_a_dead_controller_is_followed_with_the_same_token(folder: ServiceFolder) -> None:
    first = up(settings(folder))
    token = folder.token()
    os.kill(first["pid"], signal.SIGKILL)
    reap(first["pid"])
    assert folder.state == "dead"
    second = up(settings(folder))
    assert second["pid"] != first["pid"]
    assert folder.token() == token
    with Client(folder.home, environ={}) as client:
        assert client.jobs() == []
    down(folder, grace=60)
    reap(second["pid"])


def test_a_signal_ends_the_controller_in_order(folder: ServiceFolder) -> None:
    pid = up(settings(folder))["pid"]
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert folder.state == "absent"


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"policy": "nope"}, InputError, "--policy: no policy nope (known: heet)"),
        ({"policy": "broken"}, StavesError, "the store is damaged (restore it)"),
    ],
)
def test_one_that_fails_says_why(
    folder: ServiceFolder, options: dict[str, str], kind: type[StavesError], said: str
) -> None:
    with pytest.raises(StavesError) as caught:
        up(settings(folder, **options))
    assert type(caught.value) is kind
    assert str(caught.value) == said
    assert folder.state == "absent"


def test_one_that_does_not_become_well_says_why_and_is_ended(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staves.service._daemon._UNWELL", 0.0)
    with pytest.raises(StavesError, match="the service is not well: the disk is full"):
        up(settings(folder, policy="unwell"))
    assert folder.pid is None


def test_one_that_breaks_shows_its_last_words(folder: ServiceFolder) -> None:
    broken = Settings(folder.home, controller="tests.service.fake:absent")
    with pytest.raises(StavesError, match=r"ended at once: AttributeError: .*'absent'") as caught:
        up(broken)
    assert str(folder.log_file) in str(caught.value.hint)


def test_a_service_within_a_job_of_another_is_not_that_one(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = ServiceFolder(tmp_path / "other")
    for name, value in ((MARK, str(other.home)), ("STAVES_TOKEN", "of-other")):
        monkeypatch.setenv(name, value)
    told = up(settings(folder))
    environ = Path(f"/proc/{told['pid']}/environ").read_bytes()
    assert b"of-other" not in environ
    assert down(other, grace=60).leftovers == 0
    assert folder.pid == told["pid"]
    down(folder, grace=60)
    reap(told["pid"])


def test_what_a_dead_controller_left_is_ended(folder: ServiceFolder) -> None:
    pid = up(settings(folder))["pid"]
    os.kill(pid, signal.SIGKILL)
    reap(pid)
    with leave(folder.home) as mine, leave(folder.home / "other") as other:
        ended = down(folder, grace=60)
        assert (ended.was, ended.leftovers) == ("dead", 1)
        assert mine.wait() == -signal.SIGTERM
        assert other.poll() is None
        other.kill()
    assert folder.state == "absent"


def test_a_start_that_fails_leaves_a_dead_controller_to_be_taken_over(
    folder: ServiceFolder, tmp_path: Path
) -> None:
    pid = up(settings(folder))["pid"]
    os.kill(pid, signal.SIGKILL)
    reap(pid)
    with pytest.raises(StavesError):
        up(Settings(folder.home, controller="tests.service.fake:no_such_thing"))
    assert folder.state == "dead", "its jobs may run on"
    again = up(settings(folder))["pid"]
    assert again != pid
    down(folder, grace=60)
    reap(again)


def test_a_start_on_a_full_disk_says_so(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staves.service._daemon._ROOM", 2**62)
    with pytest.raises(StavesError, match="is full"):
        up(Settings(folder.home, controller="tests.service.fake:no_such_thing"))


def test_agents_are_left_to_their_supervisor(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staves.service._down._LEFTOVERS_GRACE", 0.5)
    pid = up(settings(folder))["pid"]
    os.kill(pid, signal.SIGKILL)
    reap(pid)
    told = "trap 'exit 7' TERM; echo; while :; do sleep 0.05; done"
    with (
        leave(folder.home) as supervisor,
        leave(folder.home, told, **{AGENT_TOKEN: "secret"}) as agent,
    ):
        assert agent.stdout is not None
        agent.stdout.readline()
        assert down(folder, grace=60).leftovers >= 2
        assert supervisor.wait() == -signal.SIGTERM
        assert agent.wait() == -signal.SIGKILL, "it was not told, and ended when time was up"


def test_what_does_not_end_is_ended_by_force(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staves.service._down._LEFTOVERS_GRACE", 0.1)
    told: Document = up(settings(folder))
    monkeypatch.setattr("staves.service._down._ask", lambda folder: True)
    with leave(folder.home, "trap '' TERM; echo; while :; do sleep 1000; done") as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        os.kill(told["pid"], signal.SIGSTOP)
        ended = down(folder, grace=0.1)
        reap(told["pid"])
        assert (ended.was, ended.forced) == ("up", True)
        assert ended.leftovers >= 1
        assert stubborn.wait() == -signal.SIGKILL


def leave(home: Path, command: str = "exec sleep 1000", **environ: str) -> subprocess.Popen[bytes]:
    """Start what a controller of that home might have started."""
    environ = {**os.environ, MARK: str(home), **environ}
    return subprocess.Popen(["/bin/sh", "-c", command], env=environ, stdout=subprocess.PIPE)
