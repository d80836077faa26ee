"""The lock says whether a service runs, and nothing else does."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from staves.errors import InputError, StavesError
from staves.service import ServiceFolder

URL = "http://127.0.0.1:9"


@pytest.fixture
def folder(tmp_path: Path) -> ServiceFolder:
    folder = ServiceFolder(tmp_path / "home")
    folder.create()
    return folder


def test_states(folder: ServiceFolder) -> None:
    assert (folder.state, folder.pid, folder.address()) == ("absent", None, None)
    lock = folder.lock()
    assert (folder.state, folder.pid, folder.address()) == ("starting", os.getpid(), None)
    folder.tell_address(URL)
    assert (folder.state, folder.address()) == ("up", (URL, os.getpid()))
    os.close(lock)
    assert (folder.state, folder.pid) == ("dead", None)
    folder.forget_address()
    assert folder.state == "absent"


def test_nothing_is_there_before(tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path)
    assert (folder.state, folder.pid, folder.token()) == ("absent", None, None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": "x"}', '{"url": "x", "pid": "y"}'])
def test_a_damaged_address_is_none(folder: ServiceFolder, text: str) -> None:
    (folder.path / "address.json").write_text(text)
    assert folder.address() is None


def test_one_holds_the_lock_and_its_children_do_not(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staves.service._folder._ASKED", 0.1)
    lock = folder.lock()
    with pytest.raises(InputError, match=f"a service runs already: process {os.getpid()}"):
        folder.lock()
    waiting = [sys.executable, "-c", "print(flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(waiting, stdin=pipe, stdout=pipe, close_fds=False) as child:
        assert child.stdout is not None
        child.stdout.readline()  # descriptors are closed by its exec, a moment after it has begun
        os.close(lock)
        assert folder.state == "absent"
        child.communicate(b"\n")


def test_those_who_ask_do_not_keep_a_controller_out(folder: ServiceFolder) -> None:
    code = (
        "import sys; from pathlib import Path; from staves.service import ServiceFolder\n"
        "folder = ServiceFolder(Path(sys.argv[1])); print(flush=True)\n"
        "while True: folder.state"
    )
    command = [sys.executable, "-c", code, str(folder.home)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    os.close(folder.lock())  # there is something to ask about
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        for _ in range(200):
            os.close(folder.lock())
        asking.kill()


def test_the_token_is_for_its_owner_alone(folder: ServiceFolder) -> None:
    folder.keep_token("first")
    folder.token_file.chmod(0o644)
    folder.keep_token("second")
    assert folder.token() == "second"
    assert stat.S_IMODE(folder.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StavesError, match="home") as caught:
        ServiceFolder(tmp_path / "home").create()
    assert "STAVES_HOME" in str(caught.value.hint)


def test_a_damaged_token_is_none_that_anybody_knows(tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path)
    folder.create()
    folder.token_file.write_bytes(b"\xff\xfe")
    token = folder.token()
    assert token is not None
    assert token.isascii()
