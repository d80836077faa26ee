"""Logs are read piece by piece from any offset, and nothing but logs is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.service._routes_logs import _read
from tests.service.conftest import Ask
from tests.service.test_api import API, refused, submit

TEXT = "epoch 1\nepoch 2: ünï\n".encode()


@pytest.fixture
def folder(ask: Ask, tmp_path: Path) -> Path:
    submit(ask)
    folder = tmp_path / "logs" / "1" / "1"
    folder.mkdir(parents=True)
    (folder / "rank-0.log").write_bytes(TEXT)
    (tmp_path / "secret.log").write_text("secret")
    return folder


def test_logs_are_listed_with_their_sizes(ask: Ask, folder: Path) -> None:
    assert ask("ada").get(f"{API}/jobs/digits/logs").json() == {
        "id": "1",
        "name": "digits",
        "attempt": 1,
        "ended": False,
        "logs": [{"name": "rank-0", "size": len(TEXT)}],
    }
    assert ask("ada").get(f"{API}/jobs/digits/logs?attempt=7").json()["logs"] == []


@given(
    data=st.binary(max_size=60),
    offset=st.integers(-80, 80),
    limit=st.integers(1, 80),
)
def test_pieces_are_slices(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, offset: int, limit: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "x.log"
    path.write_bytes(data)
    begin, piece = _read(path, offset, limit)
    assert begin == (offset if offset >= 0 else max(len(data) + offset, 0))
    assert piece == data[begin:][:limit]


def test_a_log_is_followed(ask: Ask, folder: Path) -> None:
    read, offset = b"", 0
    for more in (b"", b"later\n", b""):
        with (folder / "rank-0.log").open("ab") as file:
            file.write(more)
        while True:
            answer = ask("ada").get(f"{API}/jobs/1/logs/rank-0?offset={offset}&limit=7")
            offset = int(answer.headers["staves-next-offset"])
            read += answer.content
            if not answer.content:
                break
    assert read == TEXT + b"later\n"


@pytest.mark.parametrize(
    "name",
    ["../secret", "..%2Fsecret", "%2e%2e%2fsecret.log", "..%2f..%2fsecret", "rank-0.log", "%00",
     "....//secret", "..\\secret", "%2Fetc%2Fpasswd"],
)  # fmt: skip
def test_names_lead_nowhere_else(ask: Ask, folder: Path, name: str) -> None:
    for path in (f"logs/{name}", f"logs/{name}?attempt=1"):
        answer = ask("ada").get(f"{API}/jobs/1/{path}")
        assert answer.status_code in (404, 405)  # clients resolve plain dots themselves
        assert set(answer.json()) == {"error", "hint"}


def test_a_log_that_is_a_link_is_not_read(ask: Ask, folder: Path, tmp_path: Path) -> None:
    (folder / "rank-1.log").symlink_to(tmp_path / "secret.log")
    answer = ask("ada").get(f"{API}/jobs/1/logs/rank-1")
    refused(answer, 404, "cannot be read")
    assert "secret" not in answer.text


def test_a_wrong_name_gets_the_nearest(ask: Ask, folder: Path) -> None:
    refused(ask("ada").get(f"{API}/jobs/1/logs/rank-00"), 404, "no log", "did you mean 'rank-0'?")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=2000000", "offset=x", "attempt=0", f"offset=-{1 << 70}"]
)
def test_wrong_numbers_are_refused(ask: Ask, folder: Path, query: str) -> None:
    name = query.partition("=")[0]
    refused(ask("ada").get(f"{API}/jobs/1/logs/rank-0?{query}"), 422, f"query.{name}")


def test_an_offset_past_all_files_reads_nothing(ask: Ask, folder: Path) -> None:
    answer = ask("ada").get(f"{API}/jobs/1/logs/rank-0?offset={1 << 70}")
    assert (answer.status_code, answer.content) == (200, b"")
