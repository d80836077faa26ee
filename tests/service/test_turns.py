"""The controller's turns on a pretended engine, in virtual time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staves.engines._base import Launch, Status
from staves.errors import InputError, StavesError
from staves.estimation import LINES_LOG_STD
from staves.hardware import Cluster, DeviceType, KeptLink, KeptLinks, Link, Node
from staves.scheduling import Decision, Heet, JobView, View, policy
from staves.service._beliefs import fitted_types
from staves.service._deciding import decide
from staves.service._rows import Job
from staves.service._spec import JobSpec
from staves.service._states import Grant, Pause, Resume, Stop
from staves.service._store import Store
from staves.service._turns import Turns
from tests.service.pretend import PretendEngine

TYPES = {name: DeviceType(name) for name in ("fast", "slow")}
CLUSTER = Cluster(TYPES, (Node("a", {"fast": 2}), Node("b", {"slow": 2})))


class World:
    """A store, an engine and a controller; time passes when it is told to."""

    def __init__(self, folder: Path, name: str, quotas: dict[str, int] | None = None) -> None:
        self.folder, self.policy, self.quotas = folder, name, quotas
        self.engine = PretendEngine(CLUSTER)
        self.store = Store(folder)
        self.turns = self._turns()

    def _turns(self) -> Turns:
        return Turns(
            self.store,
            self.engine,
            policy(self.policy),
            home=self.folder,
            workdir_of=lambda job: self.folder,
            clock=lambda: self.engine.now,
            quotas=self.quotas,
        )

    def crash(self) -> None:
        """The controller dies, and another one takes over."""
        self.store.close()
        self.store = Store(self.folder)
        self.turns = self._turns()

    def submit(self, name: str, **fields: object) -> str:
        truth: dict[str, Any] = {
            name: fields.pop(name) for name in ("elastic", "samples", "speeds") if name in fields
        }
        spec = JobSpec(name, "true", self.folder, Path("/usr/bin/python3"), **fields)  # type: ignore[arg-type]
        job = self.store.submit(spec, "0" * 64, "me", now=self.engine.now)
        self.engine.truth[job] = truth
        self.turns.reconsider()
        return job

    def run(self, until: Callable[[], bool], *, longest: float = 5000.0) -> float:
        """Let time pass until then; return how long that took."""
        begun = self.engine.now
        while not until():
            assert self.engine.now - begun < longest, "in vain: " + str(
                [(j.id, j.record.state, j.record.devices, j.record.reason) for j in self.jobs()]
            )
            self.engine.now += 0.4
            self.turns.turn()
        return self.engine.now - begun

    def jobs(self) -> list[Job]:
        return self.store.jobs()

    def state(self, job: str) -> str:
        return self.store.job(job).record.state

    def elastic(self, job: str) -> bool:
        return bool(self.store.job(job).record.elastic)

    def devices(self, job: str) -> tuple[str, ...]:
        return self.store.job(job).record.devices

    def over(self) -> bool:
        return all(job.record.final for job in self.jobs())


@pytest.fixture(params=["heet", "fifo", "srtf"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, request.param)
    yield world
    world.store.close()


@pytest.fixture
def heet(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, "heet")
    yield world
    world.store.close()


@pytest.fixture
def srtf(tmp_path: Path) -> Iterator[World]:
    """One device a job: others are free for probes."""
    world = World(tmp_path, "srtf")
    yield world
    world.store.close()


def test_jobs_run_to_their_end(world: World) -> None:
    for number in range(5):
        world.submit(f"job{number}", samples=60.0, maximum=3)
    world.run(world.over)
    assert {job.record.state for job in world.jobs()} == {"finished"}
    assert sorted(world.engine.launches)[0] == ("1", 1)


def test_a_lone_job_is_probed_and_grows(heet: World) -> None:
    job = heet.submit("lone", samples=200.0, speeds={"fast": 2.0, "slow": 1.0})
    heet.run(lambda: heet.state(job) == "probing")
    assert len(heet.devices(job)) == 1
    heet.run(lambda: len(heet.devices(job)) > 1)
    # One of each type at once: a mixed set, so that both are measured together.
    assert {name.split("/")[0] for name in heet.devices(job)} == {"a", "b"}
    heet.run(lambda: len(heet.devices(job)) == 4)
    heet.run(heet.over)
    story = [line.after for line in heet.store.story(job)]
    assert story[0] == "queued"
    assert story[-1] == "finished"
    assert {"probing", "rescaling", "running"} <= set(story)
    assert heet.store.job(job).summary == {"samples": 200.0}


def test_decisions_count_on_links_as_soon_as_they_are_measured(
    heet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(policy: Any, candidates: Any, cluster: Cluster, **others: Any) -> Any:
        seen.append(dict(cluster.links))
        return decide(policy, candidates, cluster, **others)

    monkeypatch.setattr("staves.service._turns.decide", watched)
    heet.submit("before", samples=60.0)
    heet.run(heet.over)
    assert seen[-1] == {}
    link = KeptLink(Link(1e8, 1e-3), 1.0)
    KeptLinks(heet.folder, pytest.fail).keep({("b", "a"): link, ("a", "gone"): link})
    heet.submit("after", samples=60.0)
    heet.run(heet.over)
    assert seen[-1] == {("a", "b"): link.link}


def test_a_second_job_gets_its_share_in_place(heet: World) -> None:
    first = heet.submit("first", samples=400.0)
    heet.run(lambda: len(heet.devices(first)) == 4 and heet.state(first) == "running")
    second = heet.submit("second", samples=20.0)
    heet.run(lambda: bool(heet.devices(second)))
    heet.run(heet.over)
    assert heet.engine.launches.count((first, 1)) == 1
    assert (first, 2) not in heet.engine.launches  # it only shrank


def test_a_job_that_has_settled_shares_at_once(heet: World) -> None:
    """Nothing happens when it has: the decision must not wait for the next round."""
    assert heet.turns.policy.round_seconds is not None
    first = heet.submit("first", samples=4000.0)
    heet.run(lambda: len(heet.devices(first)) == 4 and heet.state(first) == "running")
    second = heet.submit("second", samples=20.0)
    assert heet.run(lambda: bool(heet.devices(second))) < heet.turns.policy.round_seconds / 3


def test_a_new_job_begins_on_what_was_fast_for_those_before(heet: World) -> None:
    speeds = {"fast": 1.0, "slow": 4.0}
    first = heet.submit("first", samples=300.0, speeds=speeds)
    heet.run(heet.over)
    assert heet.store.job(first).knowledge is not None
    second = heet.submit("second", samples=30.0, speeds=speeds)
    heet.run(lambda: bool(heet.devices(second)))
    assert heet.devices(second)[0].startswith("b/slow")
    heet.run(heet.over)


def decided(world: World, job: str) -> list[dict[str, Any]]:
    """Return what decisions said of a job, oldest first."""
    return [
        entry
        for stored in reversed(world.store.decisions(1000))
        for entry in stored.document["jobs"]
        if entry["id"] == job
    ]


def past(world: World, *slow: float) -> list[str]:
    """Run jobs one after another, so fast on the slow type; return their ids."""
    jobs = []
    for number, speed in enumerate(slow):
        speeds = {"fast": 2.0, "slow": speed}
        jobs.append(world.submit(f"past{number}", samples=400.0, speeds=speeds))
        world.run(world.over)
    return jobs


def test_what_all_past_jobs_have_shown_is_not_measured_again(srtf: World) -> None:
    jobs = past(srtf, *[0.5] * 4)
    assert all(any(e["probed"] == ["slow"] for e in decided(srtf, job)) for job in jobs[:3])
    history = srtf.store.measured()
    assert [one.id for one in history] == jobs
    srtf.crash()  # what was measured is known to the next controller
    assert srtf.store.measured() == history
    new = srtf.submit("new", samples=400.0, speeds={"fast": 2.0, "slow": 0.5})
    srtf.run(srtf.over)
    told = decided(srtf, new)
    assert not any(entry["probed"] for entry in told)
    assert 0 < told[-1]["chosen"]["log_std"] < 0.05
    assert [line.text for line in srtf.store.story(new) if line.event == "grant"] == ["a/fast-0"]


def test_where_past_jobs_differ_a_new_one_is_measured(srtf: World) -> None:
    past(srtf, 0.05, 0.2, 0.8, 3.2)
    new = srtf.submit("new", samples=4000.0, speeds={"fast": 2.0, "slow": 4.0})
    srtf.run(lambda: "slow" in fitted_types(srtf.store.job(new), None))
    (first, *_) = (entry for entry in decided(srtf, new) if entry["probed"])
    assert first["probed"] == ["slow"]
    assert first["chosen"]["log_std"] > LINES_LOG_STD
    srtf.run(srtf.over)
    assert decided(srtf, new)[-1]["chosen"]["log_std"] == pytest.approx(LINES_LOG_STD)


def test_a_probe_that_would_last_longer_than_the_job_is_none(srtf: World) -> None:
    past(srtf, 0.05, 0.2, 0.8, 3.2)
    new = srtf.submit("new", samples=12.0, speeds={"fast": 2.0, "slow": 4.0})
    srtf.run(srtf.over)
    told = decided(srtf, new)
    assert len(told) > 1
    assert not any(entry["probed"] for entry in told)


def test_heet_goes_by_past_jobs_from_the_first_seconds_on(heet: World) -> None:
    """Before it has lines, it is placed where jobs like it were fast."""
    past(heet, *[8.0] * 4)
    new = heet.submit("new", samples=400.0, speeds={"fast": 2.0, "slow": 8.0}, maximum=2)
    heet.run(heet.over)
    grants = [line.text for line in heet.store.story(new) if line.event == "grant"]
    assert set(grants[0].split(", ")) <= {"b/slow-0", "b/slow-1"}
    assert set(grants[-1].split(", ")) == {"b/slow-0", "b/slow-1"}
    assert len(grants) == 2


def test_two_alike_do_not_take_turns(heet: World) -> None:
    """What has just changed loses nothing for a while, and is not moved about for a whim."""
    jobs = [heet.submit(f"twin{n}", samples=300.0, speeds={"fast": 2.0}) for n in range(2)]
    heet.run(heet.over)
    for job in jobs:
        story = heet.store.story(job)
        assert sum(line.event == "grant" for line in story) <= 8
        assert heet.store.job(job).record.attempt <= 2


def test_scaled_by_its_owner(heet: World) -> None:
    """It gets what others can spare; what they cannot it waits for, and trains on meanwhile."""
    mine = heet.submit("mine", samples=3000.0)
    plain = heet.submit("plain", samples=400.0, elastic=False, minimum=2)
    heet.run(lambda: heet.elastic(mine) and bool(heet.devices(plain)))
    for wanted, has in ((1, 1), (2, 2)):
        spec = replace(heet.store.job(mine).spec, scaled=wanted)
        heet.store.respecify(mine, spec, "scaled", now=heet.engine.now)
        heet.turns.reconsider()
        heet.run(lambda has=has: len(heet.devices(mine)) == has)  # type: ignore[misc]
    spec = replace(heet.store.job(mine).spec, scaled=4)
    heet.store.respecify(mine, spec, "scaled", now=heet.engine.now)
    heet.turns.reconsider()
    heet.run(lambda: heet.state(plain) == "finished")
    assert heet.store.job(mine).record.attempt == 1
    heet.run(lambda: len(heet.devices(mine)) == 4)
    told = {one["id"]: one["text"] for one in heet.store.decisions(limit=1)[0].document["jobs"]}
    assert "`staves scale` holds it at 4 devices" in told[mine]
    heet.run(heet.over)
    assert heet.store.job(mine).record.attempt == 1


def test_a_policy_is_told_what_a_job_has_had_and_when_it_is_due(tmp_path: Path) -> None:
    seen: list[JobView] = []

    class Watched(Heet):
        def decide(self, view: View) -> Decision:
            seen.extend(view.jobs)
            return super().decide(view)

    world = World(tmp_path, "heet")
    world.turns.policy = Watched()
    submitted = world.engine.now
    job = world.submit("due", samples=400.0, deadline=7200.0, scaling="fixed", reference=32)
    world.run(lambda: len(world.devices(job)) == 4 and world.state(job) == "running")
    world.engine.kill(job)  # another attempt
    world.run(world.over)
    world.store.close()
    assert {one.deadline for one in seen} == {submitted + 7200.0}
    first, last = seen[0], seen[-1]
    assert (first.age, first.restarts, first.unchanged, first.progress) == (0, 0, math.inf, 0)
    assert first.held_seconds == (0.0, 0.0)
    assert last.restarts == 1
    assert 0 < last.unchanged < last.age
    assert max(last.held_seconds) <= last.age + 1.0  # a turn more or less
    assert last.attained > max(last.held_seconds) > 0
    assert last.step_work == 32.0
    assert last.steps_left == pytest.approx(last.remaining / 32)
    assert last.progress == pytest.approx(400.0 - last.remaining)


def test_jobs_of_a_tenant_have_no_more_together_than_its_quota(tmp_path: Path) -> None:
    """Theirs are those that name it, and, where a job names none, those of its user."""
    world = World(tmp_path, "heet", {"me": 2, "lab": 1})
    mine = [world.submit(f"mine{n}", samples=300.0) for n in range(3)]
    lab = [world.submit(f"lab{n}", samples=300.0, tenant="lab") for n in range(2)]
    most = [0, 0]

    def watched() -> bool:
        for at, those in enumerate((mine, lab)):
            most[at] = max(most[at], sum(len(world.devices(job)) for job in those))
        return world.over()

    world.run(watched)
    assert most == [2, 1]
    texts = [
        entry["text"]
        for decision in world.store.decisions(limit=1000)
        for entry in decision.document["jobs"]
    ]
    world.store.close()
    assert any("its tenant, lab, uses 1 of its quota of 1" in text for text in texts)


def test_a_job_scaled_beyond_its_quota_keeps_what_that_allows(tmp_path: Path) -> None:
    world = World(tmp_path, "heet", {"me": 2})
    job = world.submit("one", samples=2000.0)
    world.run(lambda: len(world.devices(job)) == 2 and world.state(job) == "running")
    world.store.respecify(
        job, replace(world.store.job(job).spec, scaled=4), "scaled", now=world.engine.now
    )
    world.turns.reconsider()
    begun = world.engine.now
    world.run(lambda: world.engine.now > begun + 200.0)
    assert len(world.devices(job)) == 2
    world.quotas = {"me": 1}
    world.crash()  # another controller, with a lower quota
    world.run(lambda: len(world.devices(job)) == 1)
    assert world.store.job(job).record.attempt == 1, "it shrinks in place"
    world.store.close()


def test_a_policy_that_does_not_honour_quotas_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'fifo' does not honour quotas"):
        World(tmp_path, "fifo", {"me": 2})


def test_who_is_due_soon_goes_first_where_the_policy_asks(tmp_path: Path) -> None:
    world = World(tmp_path, "elasticflow")
    calm = world.submit("calm", samples=4000.0)
    world.run(lambda: len(world.devices(calm)) > 1)
    due = world.submit("due", samples=600.0, deadline=400.0)
    world.run(lambda: world.state(due) == "finished")
    ended = world.store.job(due).finished
    assert ended is not None
    assert ended - world.store.job(due).submitted < 400.0
    assert world.state(calm) != "finished"
    world.store.close()


def test_what_is_not_elastic_is_left_alone(heet: World) -> None:
    plain = heet.submit("plain", samples=100.0, elastic=False)
    heet.run(lambda: bool(heet.devices(plain)))
    had = heet.devices(plain)
    other = heet.submit("other", samples=100.0)
    heet.run(lambda: heet.state(other) == "running")
    assert heet.devices(plain) == had
    heet.run(heet.over)
    assert heet.engine.launches.count((plain, 1)) == 1
    assert (plain, 2) not in heet.engine.launches
    assert "probing" not in {line.after for line in heet.store.story(plain)}


def test_pause_and_resume_go_on_from_what_was_saved(heet: World) -> None:
    job = heet.submit("job", samples=300.0)
    heet.run(lambda: heet.elastic(job))
    heet.store.apply(job, Pause(), now=heet.engine.now)
    heet.run(lambda: heet.state(job) == "paused")
    assert heet.devices(job) == ()
    kept = heet.engine.kept[job]
    assert kept > 0
    heet.store.apply(job, Resume(), now=heet.engine.now)
    heet.turns.reconsider()
    heet.run(heet.over)
    assert heet.store.job(job).record.attempt == 2


def test_stop_ends_it_for_good(heet: World) -> None:
    job = heet.submit("job", samples=300.0)
    heet.run(lambda: heet.state(job) == "running")
    heet.store.apply(job, Stop(), now=heet.engine.now)
    heet.run(heet.over)
    assert heet.state(job) == "cancelled"
    assert heet.engine.alive() == []


def test_a_lost_supervisor_is_made_up_for(heet: World) -> None:
    elastic = heet.submit("elastic", samples=100.0)
    plain = heet.submit("plain", samples=100.0, elastic=False)
    heet.run(lambda: heet.elastic(elastic) and heet.state(plain) == "running")
    heet.engine.kill(elastic)
    heet.engine.kill(plain)
    heet.run(heet.over)
    assert heet.state(elastic) == "finished"
    assert heet.store.job(elastic).record.attempt == 2
    assert heet.state(plain) == "failed"  # it might have had its effect already
    assert "not run again" in heet.store.job(plain).record.reason


def test_a_drained_node_is_left_and_used_again(heet: World) -> None:
    job = heet.submit("job", samples=600.0)
    heet.run(lambda: len(heet.devices(job)) == 4 and heet.state(job) == "running")
    heet.store.drain("a")
    heet.turns.reconsider()
    heet.run(lambda: heet.state(job) == "running" and len(heet.devices(job)) == 2)
    assert all(name.startswith("b/") for name in heet.devices(job))
    heet.store.drain("a", drained=False)
    heet.turns.reconsider()
    heet.run(lambda: len(heet.devices(job)) == 4)
    heet.run(heet.over)


def test_a_type_that_vanishes(heet: World) -> None:
    job = heet.submit("job", samples=400.0)
    heet.run(lambda: len(heet.devices(job)) == 4 and heet.state(job) == "running")
    only = heet.submit("only-slow", samples=10.0, types=("slow",))
    heet.engine.vanish("b")
    heet.run(lambda: heet.state(job) == "running" and len(heet.devices(job)) == 2)
    assert heet.state(only) == "queued"
    assert "slow" in heet.turns.unable[only]
    heet.run(lambda: heet.state(job) == "finished")


def test_a_node_that_comes_back(heet: World) -> None:
    job = heet.submit("job", samples=800.0)
    heet.run(lambda: len(heet.devices(job)) == 4 and heet.state(job) == "running")
    heet.engine.vanish("b")
    heet.run(lambda: heet.state(job) == "running" and len(heet.devices(job)) == 2)
    heet.engine.put_back(CLUSTER)
    heet.run(lambda: len(heet.devices(job)) == 4)
    heet.run(heet.over)


def test_a_device_that_a_job_cannot_use_is_shunned(heet: World) -> None:
    heet.engine.broken = {"b/slow-0"}
    job = heet.submit("job", samples=400.0)
    heet.run(lambda: len(heet.devices(job)) == 3 and heet.state(job) == "running")
    assert "b/slow-0" not in heet.devices(job)
    heet.run(heet.over)
    grants = [line for line in heet.store.story(job) if line.event == "grant"]
    assert len(grants) < 8  # it is not offered again and again


@pytest.mark.parametrize("seed", range(8))
def test_controllers_that_die_lose_nothing(seed: int, tmp_path: Path) -> None:
    """At random turns another controller takes over; every job runs to its end, once."""
    import random

    chance = random.Random(seed)
    world = World(tmp_path, chance.choice(["heet", "srtf"]))
    jobs = [
        world.submit(
            f"job{n}",
            samples=chance.uniform(5, 120),
            elastic=chance.random() < 0.7,
            minimum=chance.choice([1, 1, 2]),
        )
        for n in range(6)
    ]

    def over() -> bool:
        if chance.random() < 0.1:
            world.crash()
        return world.over()

    world.run(over)
    assert {world.state(job) for job in jobs} == {"finished"}
    assert len(set(world.engine.launches)) == len(world.engine.launches)
    for job in jobs:
        record = world.store.job(job).record
        if not record.elastic:
            assert record.attempt == 1
    world.store.close()


def test_a_grant_that_the_engine_never_heard_of_is_told_again(heet: World) -> None:
    job = heet.submit("job", samples=10.0)
    heet.store.apply(job, Grant(("a/fast-0",)), now=heet.engine.now)
    heet.crash()  # between the store and the engine
    heet.run(heet.over)
    assert heet.engine.launches[0] == (job, 1)
    assert heet.state(job) == "finished"


def test_a_job_that_cannot_be_started_for_a_reason_of_its_own_keeps_no_other_waiting(
    heet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = heet.engine.launch
    bad = heet.submit("bad", retries=1)

    def launched(asked: Launch) -> None:
        if asked.job == bad:
            raise ValueError("embedded null byte")
        launch(asked)

    monkeypatch.setattr(heet.engine, "launch", launched)
    good = heet.submit("good", samples=50.0)
    heet.run(heet.over)
    assert (heet.state(bad), heet.state(good)) == ("failed", "finished")
    assert "ValueError: embedded null byte" in heet.store.job(bad).record.reason


def test_a_job_whose_status_cannot_be_read_keeps_no_other_waiting(
    heet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = heet.submit("bad", samples=10.0)
    heet.run(lambda: heet.state(bad) == "running")
    status, turn, raised = heet.engine.status, heet.turns.turn, []

    def unreadable(job: str, attempt: int) -> Status:
        if job == bad:
            raise StavesError("status.json is damaged")
        return status(job, attempt)

    def turned() -> None:
        try:
            turn()
        except StavesError as error:
            raised.append(error.message)

    monkeypatch.setattr(heet.engine, "status", unreadable)
    monkeypatch.setattr(heet.turns, "turn", turned)
    good = heet.submit("good", samples=50.0)
    heet.run(lambda: heet.state(good) == "finished")
    assert set(raised) == {"status.json is damaged"}, "it is said all the same"
    assert heet.state(bad) == "running"


class Moody(Heet):
    """Fails while it is in the mood for it."""

    wrong = False

    def decide(self, view: View) -> Decision:
        if self.wrong:
            raise RuntimeError("not today")
        return super().decide(view)


def test_a_policy_that_fails_is_said_and_asked_again(heet: World) -> None:
    moody = Moody()
    heet.turns.policy = moody
    first = heet.submit("first", samples=1e6, maximum=2)
    heet.run(lambda: heet.state(first) == "running")
    devices, moody.wrong = heet.devices(first), True
    second = heet.submit("second", samples=60.0)
    heet.run(lambda: heet.turns.undecided is not None)
    for _ in range(20):  # attempts are made meanwhile, and all fail
        heet.engine.now += 0.4
        heet.turns.turn()
        assert re.search(r"RuntimeError at test_turns.py:\d+: not today", str(heet.turns.undecided))
    assert heet.devices(first) == devices
    moody.wrong = False
    heet.run(lambda: heet.state(second) in ("running", "finished"))
    assert heet.turns.undecided is None


def test_what_the_cluster_does_not_let_begin_is_tried_elsewhere_and_later(heet: World) -> None:
    job = heet.submit("new", samples=400.0, elastic=False)
    heet.run(lambda: bool(heet.devices(job)))
    refused = heet.devices(job)
    heet.engine.refuse(job)
    heet.run(lambda: heet.store.job(job).record.attempt == 2)
    record = heet.store.job(job).record
    assert not set(heet.devices(job)) & set(refused)
    assert (record.state, record.failures) == ("running", 0)
    reasons = [line.text for line in heet.store.story(job)]
    assert any("b: no agent: it is down" in text for text in reasons)
    heet.run(heet.over)
    assert heet.state(job) == "finished"
