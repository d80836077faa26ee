"""The commands of the service, against the API over a service in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from staves.cli import run_command
from staves.cli._service import complete_jobs, complete_nodes
from staves.cli._submit import Prepared
from tests.service.conftest import Ask
from tests.service.fake import FakeService
from tests.service.test_api import submit as submit_directly

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def staves(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command; return its exit code, standard output and standard error."""
    asker = ask("")
    monkeypatch.setattr(
        httpx.HTTPTransport, "handle_request", lambda _, request: asker.handle(request)
    )
    monkeypatch.setenv("STAVES_URL", "http://127.0.0.1:8000")
    monkeypatch.setenv("STAVES_TOKEN", "root-token")
    monkeypatch.setenv("STAVES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def told(staves: Run, *arguments: str) -> Any:
    """Run a command with --json; return the one document that it prints."""
    code, out, err = staves(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def said(staves: Run, *arguments: str) -> str:
    code, out, err = staves(*arguments)
    assert (code, err) == (0, "")
    return out


def test_ps(staves: Run, ask: Ask) -> None:
    assert told(staves, "ps") == {"jobs": []}
    assert said(staves, "ps") == "staves: no jobs (those ended: --all)\n"
    submit_directly(ask, "ada")
    (job,) = told(staves, "ps")["jobs"]
    assert (job["id"], job["name"], job["state"]) == ("1", "digits", "queued")
    header, row = said(staves, "ps").splitlines()
    assert header.split()[:3] == ["id", "name", "state"]
    assert row.split()[:4] == ["1", "digits", "queued", "-"]
    told(staves, "stop", "digits")
    assert told(staves, "ps") == {"jobs": []}
    assert len(told(staves, "ps", "--all")["jobs"]) == 1
    assert staves("ps", "--watch", "--json")[0] == 2


def test_ps_goes_on_showing(staves: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    submit_directly(ask, "ada")
    rounds = []

    def sleep(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("staves.cli._ps.time.sleep", sleep)
    code, out, err = staves("ps", "--watch")
    assert code == 130
    assert "digits" in out
    assert "interrupted" in err


def test_show_and_explain(staves: Run, ask: Ask) -> None:
    submit_directly(ask, "ada")
    assert told(staves, "show", "digits")["story"][0]["event"] == "submit"
    shown = said(staves, "show", "1")
    assert "name:        digits" in shown
    assert "submit" in shown.splitlines()[-1]
    assert "asks for:    1 or more devices, of any type\n" in shown
    assert not {"{", "[", "None"} & set(shown.split()), "values are not shown as Python writes them"
    assert told(staves, "explain", "digits")["text"] == "nothing is free"
    assert said(staves, "explain", "digits") == "digits (job 1): nothing is free\n"


@pytest.mark.parametrize("command", ["show", "explain", "logs", "pause", "resume", "stop"])
def test_an_unknown_job_gets_the_nearest_name(staves: Run, ask: Ask, command: str) -> None:
    submit_directly(ask, "ada")
    for options in ((), ("--json",)):
        code, out, err = staves(command, "digit", *options)
        assert (code, out) == (2, "")
        assert err == "staves: there is no job 'digit' (did you mean 'digits'?)\n"


def test_steering(staves: Run, ask: Ask) -> None:
    submit_directly(ask, "ada")
    assert said(staves, "pause", "digits") == "staves: digits (job 1) is paused\n"
    assert told(staves, "resume", "digits")["state"] == "queued"
    assert said(staves, "stop", "1") == "staves: digits (job 1) is cancelled\n"
    code, _, err = staves("pause", "1")
    assert (code, err) == (2, "staves: job 1 is cancelled (it came, it ended)\n")


def test_scaling_a_job_or_a_run(staves: Run, ask: Ask) -> None:
    submit_directly(ask, "ada")
    assert told(staves, "scale", "digits", "3")["asked"]["devices"] == 3
    assert said(staves, "scale", "digits", "3") == "staves: digits (job 1): 3 wanted\n"
    # Neither a job nor a run: what the service says is of more use than "no such run".
    code, _, err = staves("scale", "digit", "3")
    assert (code, err) == (2, "staves: there is no job 'digit' (did you mean 'digits'?)\n")


def test_scaling_a_run_needs_no_service(staves: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAVES_URL")
    code, _, err = staves("scale", "train", "3")
    assert code == 2
    assert "train: no such run in" in err


def test_history_and_what_is_estimated_from_it(staves: Run, ask: Ask, tmp_path: Path) -> None:
    assert said(staves, "history") == "staves: no job has been measured\n"
    submit_directly(ask, "ada")
    (row,) = told(staves, "history")["history"]
    assert said(staves, "history").splitlines()[1].split() == [
        "1",
        "t4",
        "1",
        "1",
        "64",
        "measured",
    ]
    exported, asked = tmp_path / "history.csv", tmp_path / "asked.csv"
    exported.write_text(said(staves, "history", "--csv"))
    header, line = exported.read_text().splitlines()
    assert dict(zip(header.split(","), line.split(","), strict=True)) == {
        name: str(value) for name, value in row.items() if name != "source"
    }
    asked.write_text("job,device_type,devices,nodes,throughput\n1,v100,1,1,\n1,t4,1,1,\n")
    live = told(staves, "estimate", "--from-service", "--observed", str(asked))
    assert live == told(staves, "estimate", "--history", str(exported), "--observed", str(asked))
    assert live["predictions"][1]["throughput"] == pytest.approx(64.0, rel=0.01)
    both = "estimate", "--from-service", "--history", str(exported), "--observed", str(asked)
    assert staves(*both)[0] == 2
    assert staves("history", "--json", "--csv")[0] == 2


def test_queue_and_nodes(staves: Run, ask: Ask) -> None:
    assert said(staves, "queue") == "staves: no job waits\n"
    submit_directly(ask, "ada")
    submit_directly(ask, "bob", "wines")
    assert [job["name"] for job in told(staves, "queue")["queue"]] == ["digits", "wines"]
    assert said(staves, "queue").splitlines()[2].split()[:4] == ["2", "2", "wines", "1"]
    assert told(staves, "nodes")["nodes"][0]["name"] == "box"
    assert "1 local-cpu" in said(staves, "nodes")
    assert said(staves, "drain", "box") == "staves: box is drained\n"
    assert told(staves, "undrain", "box")["state"] == "up"
    code, _, err = staves("drain", "bax")
    assert (code, err) == (2, "staves: there is no node 'bax' (did you mean 'box'?)\n")


def test_submitting(
    staves: Run, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text("print()")

    def prepare(file: Path) -> Prepared:
        return Prepared(file, {"run": "true", "name": file.stem}, "e" * 64, tmp_path / "work")

    monkeypatch.setattr("staves.cli._submit.prepare", prepare)
    jobs = told(staves, "submit", "a.yaml", "b.yaml")["jobs"]
    assert [(job["id"], job["name"]) for job in jobs] == [("1", "a"), ("2", "b")]
    assert (service.snapshots["e" * 64] / "train.py").read_text() == "print()"
    assert said(staves, "submit", "c.yaml") == "staves: c is job 3\n"
    assert staves("submit")[0] == 2


def test_all_jobs_are_checked_before_one_is_queued(
    staves: Run, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(file: Path) -> Prepared:
        document = {} if file.stem == "bad" else {"run": "true"}
        return Prepared(file, document, "e" * 64, tmp_path)

    monkeypatch.setattr("staves.cli._submit.prepare", prepare)
    code, out, err = staves("submit", "good.yaml", "bad.yaml", "--json")
    assert (code, out) == (2, "")
    assert err == "staves: bad.yaml: run: is missing (a shell command line)\n"
    assert told(staves, "ps", "--all") == {"jobs": []}


def write_log(tmp_path: Path, attempt: int, text: str, rank: int = 0) -> None:
    folder = tmp_path / "logs" / "1" / str(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"rank-{rank}.log").open("a") as file:
        file.write(text)


def test_logs(staves: Run, ask: Ask, tmp_path: Path) -> None:
    submit_directly(ask, "ada")
    code, _, err = staves("logs", "digits")
    assert (code, err) == (
        2,
        "staves: digits: there is no log of rank 0 (it has not started yet)\n",
    )
    write_log(tmp_path, 1, "first\nünï\n")
    write_log(tmp_path, 1, "of one\n", rank=1)
    assert told(staves, "logs", "digits") == {
        "job": "1",
        "attempt": 1,
        "log": "rank-0",
        "text": "first\nünï\n",
    }
    assert told(staves, "logs", "digits", "--rank", "1")["text"] == "of one\n"
    code, _, err = staves("logs", "digits", "--rank", "7")
    assert (code, err) == (
        2,
        "staves: digits: there is no log of rank 7 (there are rank-0, rank-1)\n",
    )
    assert staves("logs", "digits", "-f", "--json")[0] == 2


def test_logs_are_printed_as_they_are(staves: Run, ask: Ask, tmp_path: Path) -> None:
    submit_directly(ask, "ada")
    write_log(tmp_path, 1, "x" * (3 << 20))
    assert said(staves, "logs", "1") == "x" * (3 << 20)


def test_logs_are_followed_through_attempts_to_the_end(
    staves: Run,
    ask: Ask,
    service: FakeService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submit_directly(ask, "ada")
    write_log(tmp_path, 1, "one\n")

    def second_attempt() -> None:
        write_log(tmp_path, 1, "last words\n")
        service.submitted[0]["attempt"] = 2
        write_log(tmp_path, 2, "two\n")

    def end() -> None:
        write_log(tmp_path, 2, "done\n")
        service.submitted[0]["state"] = "finished"

    later = iter([lambda: write_log(tmp_path, 1, "more\n"), second_attempt, lambda: None, end])
    monkeypatch.setattr("staves.cli._logs.time.sleep", lambda _: next(later)())
    assert staves("logs", "digits", "-f") == (
        0, "one\nmore\nlast words\ntwo\ndone\n", "staves: attempt 2 begins\n"
    )  # fmt: skip


def test_status(staves: Run, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(staves, "status")["state"] == "up"
    assert "staves: url: http://127.0.0.1:8000" in said(staves, "status")
    service.well = False
    code, text, err = staves("status")
    assert code == 1
    assert "the disk is full" in text
    assert "the service is not well: the disk is full" in err
    monkeypatch.delenv("STAVES_URL")
    code, text, err = staves("status", "--json")
    assert (code, json.loads(text)["state"]) == (1, "absent")
    assert err == "staves: no service is running (start it: staves up)\n"


def test_status_says_what_past_jobs_cannot_teach_and_whose_quotas_there_are(
    staves: Run, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = {**service.health(), "learning": None, "quotas": {}}
    monkeypatch.setattr(service, "health", lambda: health)
    text = said(staves, "status")
    assert "learning" not in text
    assert "quotas" not in text
    why = "past jobs cannot be learned from: ValueError: what is this"
    health |= {"learning": why, "quotas": {"ann": 8, "bob": 0}}
    text = said(staves, "status")
    assert f"staves: learning: {why}\n" in text
    assert "staves: quotas: 8 ann, 0 bob\n" in text
    assert told(staves, "status")["health"]["learning"] == why


def test_completion(staves: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    submit_directly(ask, "ada")
    submit_directly(ask, "ada", "wines")
    assert complete_jobs("") == ["digits", "wines"]
    assert complete_jobs("w") == ["wines"]
    assert complete_nodes("b") == ["box"]
    monkeypatch.delenv("STAVES_URL")
    assert complete_jobs("") == []


def test_without_its_packages_commands_say_so(staves: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_client", "_daemon", "_down"):
        monkeypatch.delitem(sys.modules, f"staves.service.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    said = "staves: the service needs the package httpx (pip install 'staves[service]')\n"
    for command in ("ps", "up", "down"):
        assert staves(command) == (1, "", said)


def test_without_a_service_commands_say_so(staves: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAVES_URL")
    for command in (["ps"], ["show", "1"], ["queue"], ["nodes"], ["drain", "box"]):
        assert staves(*command) == (1, "", "staves: no service is running (start it: staves up)\n")


def test_jobs_take_a_line_each_and_show_devices_by_type(
    staves: Run, service: FakeService, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_directly(ask, "ada")
    (job,) = service.submitted
    job["devices"] = ["node-0/rtx-4090-0", "node-0/rtx-4090-1", "node-1/a100-0"]
    job["reason"] = "its supervisor was lost, " * 20
    monkeypatch.setattr("staves.cli._service._WIDE", 80)
    monkeypatch.setenv("COLUMNS", "80")
    _, row = said(staves, "ps").splitlines()
    assert len(row) <= 80
    assert row.split()[:4] == ["1", "digits", "queued", "1xa100+2xrtx-4090"]
    assert "node-1/a100-0" in said(staves, "show", "1")


def test_explaining_says_why_not(
    staves: Run, service: FakeService, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_directly(ask, "ada")
    option = {"rate": 10.0, "seconds": None, "utility": 1.0, "why": "it is not faster"}
    options = [{**option, "configuration": f"{n}xt4", "counts": {"t4": n}} for n in (1, 2)]
    document = {"text": "1 t4.", "chosen": options[0], "alternatives": options[1:]}
    monkeypatch.setattr(service, "explain", lambda job: document)
    *_, chosen, other = said(staves, "explain", "1").splitlines()
    assert chosen.split() == ["chosen", "1xt4", "10", "-", "1", "-"]
    assert other.split(maxsplit=4)[:1] == ["2xt4"]
    assert other.rstrip().endswith("it is not faster")


def test_explaining_says_how_sure_rates_are_where_past_jobs_tell(
    staves: Run, service: FakeService, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_directly(ask, "ada")
    option = {"rate": 10.0, "seconds": 90.0, "utility": 1.5, "log_std": 0.095, "why": "no"}
    options = [{**option, "configuration": f"{n}xt4", "counts": {"t4": n}} for n in (1, 2)]
    document = {"text": "1 t4.", "chosen": options[0], "alternatives": options[1:]}
    monkeypatch.setattr(service, "explain", lambda job: document)
    *_, head, chosen, other = said(staves, "explain", "1").splitlines()
    assert head.index("samples/s") < head.index("give or take") < head.index("to its end")
    assert chosen.split()[:5] == ["chosen", "1xt4", "10", "10", "%"]
    assert other.split()[:4] == ["2xt4", "10", "10", "%"]


def test_explaining_tells_prices_and_pauses_where_the_policy_does(
    staves: Run, service: FakeService, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_directly(ask, "ada")
    option = {"rate": 10.0, "seconds": 90.0, "utility": 1.5, "price": 0.25, "pause": 5.0}
    options = [
        {**option, "configuration": f"{n}xt4", "counts": {"t4": n}, "why": "no"} for n in (1, 2)
    ]
    document = {"text": "1 t4.", "chosen": options[0], "alternatives": options[1:]}
    monkeypatch.setattr(service, "explain", lambda job: document)
    *_, head, chosen, other = said(staves, "explain", "1").splitlines()
    assert "utility" in head
    assert head.index("utility") < head.index("price") < head.index("pause") < head.index("why")
    assert chosen.split()[-3:] == ["0.25", "5s", "-"]
    assert other.split()[-3:] == ["0.25", "5s", "no"]
