"""Who may do what: every route against every role."""

from __future__ import annotations

import pytest

from tests.service.conftest import HASH, Ask
from tests.service.test_api import API, refused, submit

READS = [
    ("GET", "/jobs"),
    ("GET", "/jobs/1"),
    ("GET", "/jobs/1/explain"),
    ("GET", "/jobs/1/logs"),
    ("GET", "/queue"),
    ("GET", "/nodes"),
    ("GET", "/decisions"),
    ("GET", "/history"),
    ("GET", "/health"),
    ("HEAD", f"/snapshots/{HASH}"),
]
WRITES = [
    ("POST", "/jobs"),
    ("POST", "/jobs/check"),
    ("POST", "/jobs/1/pause"),
    ("POST", "/jobs/1/resume"),
    ("POST", "/jobs/1/scale"),
    ("POST", "/jobs/1/stop"),
    ("PUT", f"/snapshots/{HASH}"),
]
RULES = [("POST", "/nodes/box/drain"), ("POST", "/nodes/box/undrain"), ("POST", "/shutdown")]
BODIES: dict[str, object] = {
    "/jobs": {"document": {"run": "true"}, "snapshot": HASH},
    "/jobs/check": {"document": {"run": "true"}},
    "/jobs/1/scale": {"devices": 2},
}
ALLOWED = {"viewer": READS, "ada": READS + WRITES, "root": READS + WRITES + RULES}


@pytest.mark.parametrize(("method", "path"), READS + WRITES + RULES)
@pytest.mark.parametrize("who", ["", "stranger", "viewer", "ada", "root"])
def test_each_role_may_do_what_it_may(ask: Ask, who: str, method: str, path: str) -> None:
    submit(ask)
    answer = ask(who).request(method, API + path, json=BODIES.get(path))
    if who in ALLOWED:
        assert (answer.status_code == 403) == ((method, path) not in ALLOWED[who])
        assert answer.status_code < 300 or answer.status_code == 403
    else:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_routes_above_are_all_routes(ask: Ask) -> None:
    """A route that is added comes without an owner's thought, unless it stands in a list here."""
    paths = ask("").get(f"{API}/openapi.json").json()["paths"]
    tested = {(m, p.replace(HASH, "{snapshot}").replace("box", "{node}").replace("/1", "/{job}"))
              for m, p in READS + WRITES + RULES}  # fmt: skip
    for word in ("pause", "resume", "stop"):
        tested.discard(("POST", f"/jobs/{{job}}/{word}"))
    tested |= {
        ("POST", "/jobs/{job}/{action}"),
        ("GET", "/jobs/{job}/logs/{name}"),
        ("GET", "/events"),
    }
    listed = {
        (method.upper(), path.removeprefix(API)) for path, of in paths.items() for method in of
    }
    assert listed - {("GET", "/healthz"), ("GET", "/metrics")} == tested


def test_events_want_a_token(ask: Ask) -> None:
    refused(ask("").get(f"{API}/events"), 401, "a token is wanted")


def test_metrics_want_a_token(ask: Ask) -> None:
    refused(ask("").get("/metrics"), 401, "a token is wanted")
    refused(ask("stranger").get("/metrics"), 401, "not known")
    assert ask("viewer").get("/metrics").status_code == 200


def test_users_see_and_steer_their_own_jobs_only(ask: Ask) -> None:
    job = submit(ask)
    for path in ("", "/explain", "/logs", "/logs/rank-0"):
        refused(ask("bob").get(f"{API}/jobs/{job['id']}{path}"), 404, "no job")
    for action in ("pause", "resume", "stop"):
        refused(ask("bob").post(f"{API}/jobs/{job['id']}/{action}"), 404, "no job")
    answer = ask("bob").post(f"{API}/jobs/{job['id']}/scale", json={"devices": 1})
    refused(answer, 404, "no job", "no job has been submitted")
    assert ask("bob").get(f"{API}/jobs?all=true").json() == {"jobs": []}
    assert ask("root").get(f"{API}/jobs/{job['id']}").status_code == 200
    assert ask("root").post(f"{API}/jobs/{job['id']}/stop").json()["state"] == "cancelled"


def test_names_of_others_are_told_nowhere(ask: Ask) -> None:
    submit(ask, "ada", "secret-plan")
    submit(ask, "bob", "public")
    entry = ask("bob").get(f"{API}/queue").json()["queue"][0]
    assert entry["position"] == 1
    assert entry["name"] is None
    assert ask("bob").get(f"{API}/nodes").json()["nodes"][0]["devices"][0]["job"] == "another's"
    for path in ("queue", "nodes", "decisions", "jobs", "jobs/secret-plam"):
        text = ask("bob").get(f"{API}/{path}").text
        assert "secret-plan" not in text
        assert '"ada"' not in text
        assert "secret-plan" in ask("root").get(f"{API}/queue").text


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("127.0.0.1:1", 200), ("localhost", 200), ("LOCALHOST:8000", 200), ("[::1]:8000", 200),
        ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("", 421), ("[::1", 200),
        ("10.0.0.1:8000", 421),
    ],
)  # fmt: skip
def test_other_names_for_this_host_are_refused(ask: Ask, header: str, status: int) -> None:
    answer = ask("root").get(f"{API}/jobs", headers={"Host": header})
    assert answer.status_code == status
    if status != 200:
        refused(answer, 421, "does not go by that name")
