"""What a node adds to the environment of its ranks."""

from __future__ import annotations

import json

import pytest

from staves.engines.agents import _seat
from staves.engines.agents._seat import Seat
from staves.hardware import Device, DeviceType

A100, T4 = DeviceType("a100"), DeviceType("t4")


def devices(kind: DeviceType, *indices: int) -> list[Device]:
    return [Device(f"n/{kind.name}-{index}", kind, "n", index) for index in indices]


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_seat, "visible_gpus", lambda: [T4, A100, A100, T4])


def test_a_gpu_among_all_of_its_node() -> None:
    held = devices(A100, 1)
    seat = Seat("10.0.0.1", held, beside=1)
    assert seat.environ({}, held[0])["LOCAL_RANK"] == "2"


def test_a_gpu_that_came_later_to_an_agent_of_the_whole_node() -> None:
    seat = Seat("10.0.0.1", devices(A100, 0), beside=1)
    (later,) = devices(T4, 1)
    assert seat.environ({}, later)["LOCAL_RANK"] == "3"


def test_gpus_that_a_cluster_has_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-x,GPU-y")
    monkeypatch.setattr(_seat, "visible_gpus", lambda: [A100, A100, T4])
    held = [*devices(A100, 3), *devices(T4, 2), *devices(A100, 1)]
    seat = Seat("10.0.0.1", held, beside=3)
    for device, place in zip(held, "120", strict=True):
        environ = seat.environ({}, device)
        assert (environ["LOCAL_RANK"], environ["CUDA_VISIBLE_DEVICES"]) == (place, "GPU-x,GPU-y")


def test_one_process_with_all_of_them() -> None:
    held = [*devices(A100, 0, 1), *devices(T4, 1)]
    environ = Seat("10.0.0.1", held, beside=3).environ({"STAVES_DEVICES": json.dumps([])}, held[0])
    assert environ["CUDA_VISIBLE_DEVICES"] == "1,2,3"
    assert "LOCAL_RANK" not in environ


def test_what_the_job_says_wins() -> None:
    given = {"OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": "", "NCCL_SOCKET_IFNAME": "ib0"}
    held = devices(A100, 0)
    environ = Seat("127.0.0.1", held, beside=1).environ(given, held[0])
    assert {name: environ[name] for name in given} == given
    assert environ["STAVES_ADDRESS"] == "127.0.0.1"
