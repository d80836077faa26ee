"""A controller that is killed anywhere loses nothing, starts nothing twice, and stops no training.

Every job appends a line to a file of its own when it is run; the lines are counted. Training goes
on while there is no controller: its ledger is looked at before the next one is started.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time

import pytest

from staves.errors import StavesError
from staves.service import down
from tests.service.world import PATIENCE, World
from tests.training.launch import command


@pytest.mark.parametrize(
    "kills", [pytest.param(4, id="few"), pytest.param(30, id="all", marks=pytest.mark.soak)]
)
def test_kills_at_random_points(live: World, kills: int) -> None:
    chance = random.Random(kills)
    trainer = live.train(epochs=2 * kills, max=3)
    live.until(lambda: live.steps(trainer) > 0, "the first step")
    submitted: list[str] = []
    stopped: list[str] = []
    went_on = 0

    def act(kind: str) -> None:
        with contextlib.suppress(StavesError):
            if kind == "submit":
                submitted.append(live.append(chance.choice([0.1, 1.0])))
            elif kind == "rescale":
                live.client.act(trainer, "scale", devices=chance.choice([1, 2, 3]))
            elif kind == "stop":
                stopped.append(live.append(40.0))
                live.client.act(stopped[-1], "stop")

    kinds = ["submit", "start", "rescale", "stop"]
    for number in range(kills):
        kind = kinds[number % len(kinds)]
        if kind == "start":  # it is submitted by now, and is about to be started
            act("submit")
        thread = threading.Thread(target=act, args=(kind,))
        thread.start()
        time.sleep(chance.uniform(0.0, 0.6))  # any point will do
        live.kill()
        before = live.steps(trainer)
        if under_way(live, trainer):
            live.until(lambda seen=before: live.steps(trainer) > seen, "training without one")  # type: ignore[misc]
            went_on += 1
        live.revive()
        thread.join(timeout=PATIENCE)
    live.until(live.over, "all jobs to end", patience=PATIENCE + 10 * kills)
    states = {job["id"]: job["state"] for job in live.jobs()}
    assert states[trainer] == "finished"
    lines = {path.name: len(path.read_text().splitlines()) for path in live.lines.iterdir()}
    for job in submitted:
        assert (lines.get(job), states[job]) == (1, "finished"), live.job(job)["story"]
    for job in stopped:
        assert lines.get(job, 0) <= 1
        assert states[job] in ("cancelled", "finished")
    assert len(list((live.home / "jobs" / trainer / "attempts").iterdir())) == 1
    proof = command(["-m", "staves", "doctor", "--job", trainer, "--json"], live.home)
    assert json.loads(proof.stdout)["exactly_once"] is True
    cancelled = sum(states[job] == "cancelled" for job in stopped)
    print(
        f"{kills} kills: {len(submitted)} jobs ran once each, {cancelled} of {len(stopped)} were"
        f" cancelled; training went on without a controller {went_on} times"
    )
    assert went_on >= kills // 2


def under_way(live: World, job: str) -> bool:
    """Whether the job's attempt is still under way, by its folder."""
    return not (live.home / "jobs" / job / "attempts" / "1" / "outcome.json").exists()


def test_down_over_a_dead_controller_is_no_failure_of_its_jobs(live: World) -> None:
    """As after one that lives: what may be run again is queued, be it elastic or not."""
    again = live.append(600.0)
    never = live.submit("sleep 600", retries=0)
    trainer = live.train(epochs=1000, max=1)
    live.until(lambda: live.steps(trainer) > 0, "the first step")
    live.until(lambda: (live.lines / again).exists(), "the command to run")
    live.until_state(never, "running")
    live.kill()
    assert down(live.folder, grace=60).was == "dead"
    before = live.steps(trainer)
    live.revive()
    assert live.until_state(never, "failed")["reason"].endswith("retries: 0")
    live.until(lambda: live.steps(trainer) > before, "training to go on")
    live.until(lambda: len((live.lines / again).read_text().splitlines()) == 2, "it to run again")
    assert not live.folder.downed
    for job in (again, trainer):
        live.client.act(job, "stop")
    live.until(live.over, "all jobs to end")
