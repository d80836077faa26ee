"""`make gpu-check`: skipped without a GPU, dry where a CPU can stand in, and never hanging."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks.gpu_check import CHECKS, Check

from benchmarks import gpu_check


def results(text: str) -> tuple[list[str], dict[str, str]]:
    *lines, last = text.splitlines()
    told = json.loads(last)["results"]
    assert [line.split(":")[0] for line in lines] == [f"{r['verdict']} {r['check']}" for r in told]
    return lines, {r["check"]: r["verdict"] for r in told}


def test_without_a_gpu_all_is_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 0
    lines, verdicts = results(capsys.readouterr().out)
    assert verdicts == {check.name: "SKIP" for check in CHECKS}
    assert all("no CUDA device" in line for line in lines)


def test_a_dry_run_trains_and_times_two_ranks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "LONGEST", 180.0)
    monkeypatch.setattr(gpu_check, "BUDGET", 400.0)
    only = ["--only", "sharing", "--only", "timing", "--only", "hook"]
    status = gpu_check.main(["--device", "cpu", *only])
    lines, verdicts = results(capsys.readouterr().out)
    assert verdicts == {"sharing": "PASS", "timing": "PASS", "hook": "SKIP"}, lines
    assert status == 0


def test_a_check_that_hangs_fails_in_time() -> None:
    result = gpu_check._run(Check("sharing", "says"), "cpu", 0.05)
    assert (result.verdict, result.said) == ("FAIL", "no end within 0 s")


def test_a_rank_that_dies_is_named() -> None:
    result = gpu_check._run(Check("no-such-check", "says"), "cpu", 120.0)
    assert result.verdict == "FAIL"
    assert result.said.startswith("rank 0: KeyError")
    assert "rank 1: KeyError" in result.said


def test_the_longest_checks_fit_into_four_minutes() -> None:
    assert gpu_check.BUDGET < 240
    assert gpu_check.LONGEST < gpu_check.BUDGET
