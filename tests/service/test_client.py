"""The client finds its service, says clearly why it does not, and is patient with restarts."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from staves.errors import InputError, StavesError
from staves.service import Client, Refused, ServiceFolder, UnknownName

URL = "http://127.0.0.1:9"
Handler = Callable[[httpx.Request], httpx.Response]


def client(home: Path, handler: Handler, *, patience: float = 60.0, **environ: str) -> Client:
    return Client(home, environ=environ, patience=patience, transport=httpx.MockTransport(handler))


def never(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.url} was asked")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[ServiceFolder]:
    """A service that seems to run: its lock is held, and its address told."""
    folder = ServiceFolder(tmp_path)
    folder.create()
    lock = folder.lock()
    folder.keep_token("of-home")
    folder.tell_address(URL)
    yield folder
    os.close(lock)


def test_no_service(tmp_path: Path) -> None:
    with pytest.raises(StavesError, match="no service is running") as caught:
        client(tmp_path, never).jobs()
    assert caught.value.hint == "start it: staves up"
    assert caught.value.exit_code == 1


def test_a_dead_controller_is_called_dead(tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path)
    folder.create()
    os.close(folder.lock())
    folder.tell_address(URL)
    with pytest.raises(StavesError, match=rf"has died \(process {os.getpid()}\)") as caught:
        client(tmp_path, never, patience=0.0).jobs()
    assert "takes its jobs over" in str(caught.value.hint)


def test_a_starting_one_is_waited_for(tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path)
    folder.create()
    lock = folder.lock()
    try:
        with pytest.raises(StavesError, match="is starting"):
            client(tmp_path, never, patience=0.0).jobs()
    finally:
        os.close(lock)


def test_it_sends_the_token_of_the_home(up: ServiceFolder) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url == f"{URL}/api/v1/jobs?all=false"
        assert request.headers["Authorization"] == "Bearer of-home"
        return httpx.Response(200, json={"jobs": []})

    assert client(up.home, answer).jobs() == []


def test_the_environment_comes_first(up: ServiceFolder) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url).startswith("https://far.example/api/v1/")
        assert request.headers["Authorization"] == "Bearer of-far"
        return httpx.Response(200, json={"jobs": []})

    there = client(up.home, answer, STAVES_URL="https://far.example/", STAVES_TOKEN="of-far")
    assert there.jobs() == []


def test_the_token_of_this_machine_goes_to_its_own_service_only(up: ServiceFolder) -> None:
    with pytest.raises(StavesError, match="no token for https://far"):
        client(up.home, never, STAVES_URL="https://far.example").jobs()

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer of-home"
        return httpx.Response(200, json={"jobs": []})

    assert client(up.home, answer, STAVES_URL=URL).jobs() == []


def test_a_wrong_url_is_refused(tmp_path: Path) -> None:
    for url in ("localhost:80", "ftp://x"):
        with pytest.raises(InputError, match="STAVES_URL"):
            client(tmp_path, never, STAVES_URL=url)


@pytest.mark.parametrize("token", ["ü", "a\nb", "a\0"])
def test_what_is_no_token_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(InputError, match="STAVES_TOKEN: is no token"):
        client(tmp_path, never, STAVES_TOKEN=token)


@pytest.mark.parametrize(
    "failure", [httpx.ConnectError("refused"), httpx.ReadError("cut"), httpx.ReadTimeout("late")]
)
def test_a_submission_is_repeated_with_its_key(up: ServiceFolder, failure: Exception) -> None:
    keys = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) < 3:
            raise failure
        return httpx.Response(201, json={"id": "1"})

    assert client(up.home, answer).submit({"run": "true"}, "f" * 64) == {"id": "1"}
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_submissions_have_two_keys(up: ServiceFolder) -> None:
    keys = set()

    def answer(request: httpx.Request) -> httpx.Response:
        keys.add(request.headers["Idempotency-Key"])
        return httpx.Response(201, json={})

    for _ in range(2):
        client(up.home, answer).submit({}, "f" * 64)
    assert len(keys) == 2


def test_an_upload_is_repeated_whole(up: ServiceFolder, tmp_path: Path) -> None:
    (tmp_path / "content").mkdir()
    (tmp_path / "content" / "a").write_bytes(b"0123456789")
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "HEAD":
            return httpx.Response(404)
        bodies.append(request.read())
        if len(bodies) == 1:
            raise httpx.WriteError("cut")
        return httpx.Response(204)

    client(up.home, answer).put_snapshot("f" * 64, tmp_path / "content")
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]
    assert b"0123456789" in bodies[0]


def test_one_that_follows_is_found(up: ServiceFolder) -> None:
    """A controller that is started again has another port."""
    later = "http://127.0.0.1:10"

    def answer(request: httpx.Request) -> httpx.Response:
        if str(request.url).startswith(URL + "/"):
            up.tell_address(later)
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"jobs": []})

    assert client(up.home, answer).jobs() == []


def test_long_waits_are_told_once(up: ServiceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staves.service._client._LONG", 0.0)
    told: list[str] = []
    tries = iter([httpx.ConnectError("refused")] * 3)

    def answer(request: httpx.Request) -> httpx.Response:
        for failure in tries:
            raise failure
        return httpx.Response(200, json={"jobs": []})

    transport = httpx.MockTransport(answer)
    with Client(
        up.home, environ={}, patience=60.0, waiting=told.append, transport=transport
    ) as asking:
        assert asking.jobs() == []
        assert asking.jobs() == []
    assert told == [f"the service at {URL} does not answer: refused"]


def test_a_long_silence_is_told(up: ServiceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staves.service._client._SILENT", 0.01)
    told: list[str] = []
    spoken = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        spoken.set()

    def answer(request: httpx.Request) -> httpx.Response:
        assert spoken.wait(60), "it says nothing as long as nothing is answered"
        return httpx.Response(200, json={"jobs": []})

    transport = httpx.MockTransport(answer)
    with Client(up.home, environ={}, waiting=tell, transport=transport) as asking:
        assert asking.jobs() == []
    assert told == [f"the service at {URL} has not answered for 0.01 s"]


def test_patience_ends(up: ServiceFolder) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(StavesError, match="does not answer: refused") as caught:
        client(up.home, answer, patience=0.0).jobs()
    assert str(up.log_file) in str(caught.value.hint)


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [(400, InputError, 2), (401, StavesError, 1), (403, StavesError, 1), (404, UnknownName, 2),
     (409, Refused, 2), (413, InputError, 2), (422, InputError, 2), (500, StavesError, 1)],
)  # fmt: skip
def test_what_is_refused_is_said(
    up: ServiceFolder, status: int, kind: type[StavesError], code: int
) -> None:
    body = {"error": "that is why", "hint": "do this"}
    with pytest.raises(StavesError, match="that is why") as caught:
        client(up.home, lambda _: httpx.Response(status, json=body)).jobs()
    assert type(caught.value) is kind
    assert caught.value.exit_code == code
    assert caught.value.hint == ("do this" if status != 401 else caught.value.hint)


def test_another_program_at_the_port_is_noticed(up: ServiceFolder) -> None:
    with pytest.raises(StavesError, match="status 500") as caught:
        client(up.home, lambda _: httpx.Response(500, text="<html>")).jobs()
    assert caught.value.hint == "is it a Staves service?"


@pytest.mark.parametrize("name", ["a?b#c", "ü %"])
def test_a_name_is_one_part_of_the_path(up: ServiceFolder, name: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.raw_path.count(b"/") == 4
        assert b"?" not in request.url.raw_path
        return httpx.Response(200, json={"path": request.url.path})

    assert client(up.home, answer).job(name)["path"].endswith(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../queue"])
def test_dots_and_slashes_are_no_names(up: ServiceFolder, name: str) -> None:
    with pytest.raises(UnknownName, match="is no name"):
        client(up.home, never).job(name)


def test_scaling_says_how_many(up: ServiceFolder) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/api/v1/jobs/1/scale"
        return httpx.Response(200, json=json.loads(request.content))

    assert client(up.home, answer).act("1", "scale", devices=3) == {"devices": 3}


def test_a_controller_that_never_answers_is_not_waited_for_long(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environ = {"STAVES_URL": url, "STAVES_TOKEN": "t"}
        with (
            Client(tmp_path, environ=environ, patience=0.0, timeout=0.1) as client,
            pytest.raises(StavesError, match="does not answer: timed out"),
        ):
            client.health()
