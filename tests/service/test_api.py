"""Every route, and every error: one shape, the right status, and nothing of the inside."""

from __future__ import annotations

import math
from typing import Any

import pytest

from staves.errors import StavesError
from tests.service.conftest import HASH, Ask
from tests.service.fake import FakeService

API = "/api/v1"


def submit(ask: Ask, who: str = "ada", name: str = "digits", **headers: str) -> dict[str, Any]:
    body = {"document": {"run": "true", "name": name}, "snapshot": HASH}
    answer = ask(who).post(f"{API}/jobs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()
    return job


def refused(answer: Any, status: int, said: str, hint: str | None = None) -> None:
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "hint"}
    assert said in answer.json()["error"]
    if hint is not None:
        assert hint in answer.json()["hint"]


def test_a_job_is_submitted_listed_and_shown(ask: Ask) -> None:
    job = submit(ask)
    assert ask("ada").get(f"{API}/jobs").json()["jobs"] == [job]
    shown = ask("ada").get(f"{API}/jobs/{job['id']}").json()
    assert shown["story"][0]["event"] == "submit"
    assert ask("ada").get(f"{API}/jobs/digits").json() == shown


def test_the_same_key_gives_the_same_job_to_its_owner_only(ask: Ask) -> None:
    first = submit(ask, **{"Idempotency-Key": "k"})
    assert submit(ask, **{"Idempotency-Key": "k"}) == first
    assert submit(ask, "bob", **{"Idempotency-Key": "k"})["id"] != first["id"]
    assert submit(ask)["id"] != submit(ask)["id"]
    too_long = {"Idempotency-Key": "k" * 201}
    body = {"document": {"run": "true"}, "snapshot": HASH}
    refused(ask("ada").post(f"{API}/jobs", json=body, headers=too_long), 422, "idempotency-key")


def test_a_job_is_steered(ask: Ask, service: FakeService) -> None:
    job = submit(ask)
    for action, state in (("pause", "paused"), ("resume", "queued"), ("stop", "cancelled")):
        answer = ask("ada").post(f"{API}/jobs/{job['id']}/{action}")
        assert answer.json()["state"] == state
        assert service.submitted[0]["asked"] == {"action": action, "user": "ada"}
    assert ask("ada").get(f"{API}/jobs").json() == {"jobs": []}
    assert len(ask("ada").get(f"{API}/jobs?all=true").json()["jobs"]) == 1
    refused(ask("ada").post(f"{API}/jobs/digits/pause"), 409, "is cancelled", "it came, it ended")


def test_a_job_is_scaled(ask: Ask, service: FakeService) -> None:
    submit(ask)
    answer = ask("ada").post(f"{API}/jobs/digits/scale", json={"devices": 3})
    assert answer.json()["asked"] == {"action": "scale", "user": "ada", "devices": 3}
    for body in ({"devices": 0}, {"devices": "many"}, {}, {"devices": 1, "more": 1}, [1]):
        refused(ask("ada").post(f"{API}/jobs/digits/scale", json=body), 422, "body")


def test_a_job_is_explained(ask: Ask) -> None:
    job = submit(ask)
    assert ask("ada").get(f"{API}/jobs/digits/explain").json() == {
        "id": job["id"],
        "name": "digits",
        "text": "nothing is free",
        "chosen": None,
        "alternatives": [],
    }


def test_an_unknown_job_gets_the_nearest_name(ask: Ask) -> None:
    refused(ask("ada").get(f"{API}/jobs/1"), 404, "no job '1'", "no job has been submitted")
    submit(ask)
    refused(ask("ada").get(f"{API}/jobs/digit"), 404, "no job 'digit'", "did you mean 'digits'?")
    refused(ask("ada").post(f"{API}/jobs/digit/pause"), 404, "no job 'digit'", "'digits'")
    submit(ask)
    refused(ask("ada").get(f"{API}/jobs/digits"), 422, "2 jobs have that name", "use an id")


def test_the_queue_says_who_is_ahead(ask: Ask) -> None:
    submit(ask)
    submit(ask, name="wines")
    first, second = ask("ada").get(f"{API}/queue").json()["queue"]
    assert (first["position"], first["ahead"]) == (1, [])
    assert (second["name"], second["ahead"]) == ("wines", [first["id"]])


def test_nodes_are_drained_by_administrators(ask: Ask) -> None:
    assert ask("ada").get(f"{API}/nodes").json()["nodes"][0]["state"] == "up"
    assert ask("root").post(f"{API}/nodes/box/drain").json()["state"] == "drained"
    assert ask("root").post(f"{API}/nodes/box/undrain").json()["state"] == "up"
    refused(ask("root").post(f"{API}/nodes/bax/drain"), 404, "no node 'bax'", "'box'")


def test_decisions_are_listed(ask: Ask) -> None:
    submit(ask)
    (decision,) = ask("ada").get(f"{API}/decisions").json()["decisions"]
    assert [job["name"] for job in decision["jobs"]] == ["digits"]


def test_the_history_is_of_ones_own_jobs(ask: Ask) -> None:
    for who in ("ada", "bob"):
        submit(ask, who)
    assert [one["job"] for one in ask("bob").get(f"{API}/history").json()["history"]] == ["2"]
    rows = ask("root").get(f"{API}/history").json()["history"]
    assert [one["job"] for one in rows] == ["1", "2"]
    assert {"device_type", "devices", "nodes", "throughput"} < set(rows[0])


def test_health_needs_no_token_and_says_no_more(ask: Ask, service: FakeService) -> None:
    assert ask("").get("/healthz").json() == {"ok": True}
    service.well = False
    answer = ask("").get("/healthz")
    assert (answer.status_code, answer.json()) == (503, {"ok": False})
    assert ask("ada").get(f"{API}/health").json()["wrong"] == "the disk is full"


def test_metrics_count_requests_as_well(ask: Ask) -> None:
    submit(ask)
    lines = ask("ada").get("/metrics").text.splitlines()
    assert 'staves_jobs{state="all"} 1' in lines
    assert 'staves_http_requests_total{method="POST",status="201"} 1' in lines


def test_the_schema_is_published(ask: Ask) -> None:
    schema = ask("").get(f"{API}/openapi.json").json()
    assert f"{API}/jobs/{{job}}/logs/{{name}}" in schema["paths"]
    assert ask("").get("/docs").status_code == 404


def test_the_service_is_ended_once_and_takes_no_more(ask: Ask, ends: list[str]) -> None:
    for _ in range(2):
        assert ask("root").post(f"{API}/shutdown").status_code == 202
    assert ends == ["end"]
    body = {"document": {"run": "true"}, "snapshot": HASH}
    refused(ask("ada").post(f"{API}/jobs", json=body), 503, "going down")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"document": {}, "snapshot": HASH}, "run: is missing"),
        ({"document": [], "snapshot": HASH}, "body.document"),
        ({"document": {"run": "x"}}, "body.snapshot"),
        ({"document": {"run": "x"}, "snapshot": "../../etc"}, "body.snapshot"),
        ({"document": {"run": "x"}, "snapshot": HASH, "more": 1}, "body.more"),
    ],
)
def test_a_malformed_submission_is_refused(ask: Ask, body: Any, said: str) -> None:
    refused(ask("ada").post(f"{API}/jobs", json=body), 422, said)


def test_other_errors_have_the_same_shape(ask: Ask, service: FakeService) -> None:
    body = {"document": {"run": "x"}, "snapshot": "f" * 64}
    refused(ask("ada").post(f"{API}/jobs", json=body), 404, "no snapshot", "upload it")
    refused(ask("ada").get("/nothing"), 404, "Not Found")
    refused(ask("ada").request("DELETE", f"{API}/jobs"), 405, "Method Not Allowed")
    refused(ask("ada").post(f"{API}/jobs", content=b"{"), 422, "body")
    service.broken = StavesError("the disk is full", hint="free some space")
    refused(ask("ada").get(f"{API}/jobs"), 500, "the disk is full", "free some space")
    service.broken = ZeroDivisionError("secret inside")
    answer = ask("ada").get(f"{API}/jobs")
    refused(answer, 500, "the service failed to answer")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("path", ["/jobs", "/jobs/1", "/jobs/1/explain", "/nodes", "/decisions"])
def test_what_json_cannot_say_is_null(
    ask: Ask, service: FakeService, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    submit(ask)
    numbers = {"loss": math.nan, "rest": [math.inf, 1.5]}
    service.submitted[0]["progress"] = numbers
    monkeypatch.setattr(service, "explain", lambda job: numbers)
    monkeypatch.setattr(service, "nodes", lambda: [{**numbers, "devices": []}])
    monkeypatch.setattr(service, "decisions", lambda: [{**numbers, "jobs": []}])
    answer = ask("root").get(API + path)
    assert answer.status_code == 200
    assert '"loss":null,"rest":[null,1.5]' in answer.text.replace(" ", "")
