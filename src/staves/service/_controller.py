"""The controller: the one process that decides. What it knows is in the store and the engine."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from staves.engines._base import Engine
from staves.errors import InputError, StavesError, quoted
from staves.scheduling import Policy, check_quotas, policy
from staves.service._documents import job_document, node_documents, whole_document
from staves.service._engines import build_engine
from staves.service._facade import (
    ENDED,
    Action,
    Caller,
    Document,
    Refused,
    Role,
    Sample,
    Service,
    UnknownName,
)
from staves.service._folder import ServiceFolder
from staves.service._history import history_documents
from staves.service._launching import job_folder
from staves.service._measures import measures
from staves.service._rows import Job
from staves.service._snapshot import materialise_job, receive
from staves.service._spec import JobSpec
from staves.service._states import ACTIVE, STATES, Pause, Resume, Shutdown, Stop
from staves.service._store import Store
from staves.service._turns import Turns

logger = logging.getLogger(__name__)

TURN_SECONDS = 0.2
"""The longest time between two turns."""

_EVENTS: dict[str, type[Pause | Resume | Stop]] = {"pause": Pause, "resume": Resume, "stop": Stop}
_UNWELL_AFTER = 30.0  # seconds without a turn
_SHOWN = 200  # decisions
_NOT_YET = "It came after the last decision."


class Controller(Service):
    """Holds store, engine and policy together.

    Args:
        home: the folder of everything Staves keeps.
        engine: runs the jobs.
        policy: decides.
        store: keeps them.
        quotas: devices that jobs of a tenant may have together, by tenant; None for none.

    Raises:
        InputError: the policy does not honour quotas.
    """

    def __init__(
        self,
        home: Path,
        engine: Engine,
        policy: Policy,
        store: Store,
        quotas: Mapping[str, int] | None = None,
    ) -> None:
        self._home, self._engine, self._policy, self._store = home, engine, policy, store
        self._learner = ThreadPoolExecutor(1, "staves-learner")
        self._turns = Turns(
            store,
            engine,
            policy,
            home=home,
            workdir_of=self._workdir_of,
            executor=self._learner,
            quotas=quotas,
        )
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="staves-controller", daemon=True)
        self._turned = time.monotonic()
        self._trouble: str | None = None

    # -- its life

    def start(self) -> None:
        """Begin to schedule; jobs of an earlier controller are found by the first turn."""
        folder = ServiceFolder(self._home)
        if folder.downed:  # as if that controller had still been asked: no job has failed by it
            self._end_all()
            folder.forget_down()
        self._thread.start()

    def close(self) -> None:
        """Let go of everything: jobs and their supervisors go on, for the next controller."""
        self._over.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._learner.shutdown(cancel_futures=True)
        self._store.close()

    def shutdown(self) -> None:
        """End all jobs, saved first and queued again; return when none is left."""
        with self._lock:
            self._turns.close()
            active = self._end_all()
        grace = max((job.spec.grace for job in active), default=0.0)
        deadline = time.monotonic() + grace + 30.0
        while self._store.jobs(states=ACTIVE):
            if time.monotonic() > deadline:
                raise StavesError(
                    f"{len(self._store.jobs(states=ACTIVE))} jobs did not end in time",
                    hint="`staves down` again ends them by force",
                )
            self._wake.set()
            self._over.wait(0.05)

    def _end_all(self) -> list[Job]:
        """Have all jobs that have devices end, saved where they can be, and return them."""
        active = list(self._store.jobs(states=ACTIVE))
        for job in active:
            self._store.apply(job.id, Shutdown(), now=time.time())
        return active

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with self._lock:
                    self._turns.turn()
                self._trouble = None
                self._turned = time.monotonic()
            except StavesError as error:  # a full disk, say: said, and tried again
                self._say(error.message)
            except Exception as error:
                logger.exception("a turn failed")
                self._say(f"{type(error).__name__}: {error}")
            self._wake.wait(TURN_SECONDS if self._trouble is None else 5 * TURN_SECONDS)
            self._wake.clear()

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.error("%s", trouble)
        self._trouble = trouble

    def _workdir_of(self, job: Job) -> Path:
        folder = job_folder(self._home, job.id) / "work"
        materialise_job(job.spec, self._home, job.snapshot, folder)
        return folder

    # -- who may come in

    def caller(self, token: str) -> Caller | None:
        """Return who a token stands for; None where it is not known."""
        found = self._store.token(token)
        return None if found is None else Caller(found.user, found.role)

    def add_token(self, user: str, role: Role) -> str:
        """Make a token and return it."""
        return self._store.add_token(user, role, now=time.time())

    # -- jobs

    def check(self, document: Document) -> None:
        """Refuse a job that could never be started here."""
        self._checked(document)

    def _checked(self, document: Document) -> JobSpec:
        spec, cluster = JobSpec.from_document(document), self._engine.cluster()
        spec.check_startable({**dict.fromkeys(cluster.types, 0), **cluster.configuration}, "job")
        return spec

    def submit(self, document: Document, snapshot: str, *, owner: str, key: str | None) -> Document:
        """Queue a job; what could never be started here is refused."""
        spec = self._checked(document)
        job = self._store.submit(spec, snapshot, owner, now=time.time(), key=key)
        self._turns.reconsider()
        self._wake.set()
        return job_document(self._store.job(job), None)

    def jobs(self, *, everything: bool, owner: str | None) -> list[Document]:
        """Return jobs in order of submission."""
        states = None if everything else [state for state in STATES if state not in ENDED]
        found = self._store.jobs(states=states, owner=owner)
        return [job_document(job, self._turns.status(job.id)) for job in found]

    def job(self, name: str, *, owner: str | None) -> Document:
        """Return all about one job."""
        job = self._find(name, owner)
        spans, story = self._store.spans(job.id), self._store.story(job.id)
        return whole_document(job, self._turns.status(job.id), spans, story)

    def act(self, job: str, action: Action, arguments: Document, *, user: str) -> Document:
        """Steer a job and return its document."""
        with self._lock:
            found = self._find(job, None)
            if action == "scale":
                self._scale(found, arguments["devices"])
            elif not _done(found, action):
                self._store.apply(found.id, _EVENTS[action](), now=time.time())
                logger.info("%s: %s by %s", found.record.title, action, user)
            self._turns.reconsider()
        self._wake.set()
        return job_document(self._store.job(found.id), self._turns.status(found.id))

    def _scale(self, job: Job, devices: int | None) -> None:
        if job.record.final:
            raise Refused(f"{job.record.title} is {job.record.state}: it cannot be scaled")
        if job.record.active and not job.record.elastic:
            raise Refused(
                f"{job.record.title} is not elastic: it cannot be scaled",
                hint="it has not said so far that it trains with staves",
            )
        most = job.spec.maximum or self._engine.cluster().total
        if devices is not None and not job.spec.minimum <= devices <= most:
            raise InputError(
                f"{devices} devices are outside of {job.spec.minimum} to {most}",
                hint="the job's devices.min and devices.max; `auto` is what is best for all",
            )
        text = "as is best for all" if devices is None else f"{devices} devices"
        self._store.respecify(job.id, replace(job.spec, scaled=devices), text, now=time.time())

    def _find(self, name: str, owner: str | None) -> Job:
        return self._store.find(name, owner=owner)

    # -- why

    def explain(self, job: str) -> Document:
        """Return why it has what it has, by the newest decision that was about it."""
        found = self._find(job, None)
        for stored in self._store.decisions(limit=_SHOWN):
            for entry in stored.document["jobs"]:
                if entry["id"] == found.id:
                    decided = {"time": stored.time, "policy": stored.document["policy"], **entry}
                    # One that has ended has none any more: the rest tells of its last ones.
                    now = [] if found.record.final else entry["devices"]
                    return {**decided, "state": found.record.state, "devices": now}
        return {
            "id": found.id,
            "owner": found.owner,
            "name": found.record.name,
            "state": found.record.state,
            "devices": [],
            "text": self._turns.undecided or "No decision was about it yet.",
            "chosen": None,
            "alternatives": [],
            "probed": [],
        }

    def decisions(self) -> list[Document]:
        """Return the last decisions, newest first."""
        return [
            {"time": stored.time, **stored.document}
            for stored in self._store.decisions(limit=_SHOWN)
        ]

    def history(self, *, owner: str | None) -> list[Document]:
        """Return what jobs were measured at."""
        return history_documents(self._store.measured(owner=owner))

    def queue(self) -> list[Document]:
        """Return the jobs that wait: by priority, then as they came.

        That is who is considered first; a later one may start before it where it fits.
        """
        why: dict[str, str] = {}
        for stored in self._store.decisions(limit=1):
            why = {entry["id"]: entry["text"] for entry in stored.document["jobs"]}
        waiting = sorted(self._store.jobs(states=["queued"]), key=lambda j: -j.spec.priority)
        return [
            {
                "id": job.id,
                "name": job.record.name,
                "owner": job.owner,
                "position": position,
                "waits": self._turns.undecided or why.get(job.id, _NOT_YET),
                "ahead": [other.id for other in waiting[: position - 1]],
            }
            for position, job in enumerate(waiting, 1)
        ]

    # -- nodes

    def nodes(self) -> list[Document]:
        """Return the nodes."""
        holders = {
            name: job.id for job in self._store.jobs(states=ACTIVE) for name in job.record.devices
        }
        return node_documents(self._engine.cluster(), self._store.drained(), holders)

    def drain(self, node: str, on: bool) -> Document:
        """Take a node out of use, or back into use."""
        names = [found.name for found in self._engine.cluster().nodes]
        if node not in names:
            raise UnknownName(f"{quoted(node)}: no such node", hint="nodes: " + ", ".join(names))
        with self._lock:
            self._store.drain(node, drained=on)
            self._turns.reconsider()
        self._wake.set()
        return next(found for found in self.nodes() if found["name"] == node)

    # -- files

    def logs(self, job: str, attempt: int | None) -> dict[str, Path]:
        """Return the log files of an attempt by name, the newest attempt for None."""
        record = self._find(job, None).record
        wanted = record.attempt if attempt is None else attempt
        if not 1 <= wanted <= record.attempt:
            if attempt is None:
                return {}
            raise UnknownName(
                f"{record.title} has no attempt {attempt}", hint=f"it has had {record.attempt}"
            )
        return self._engine.logs(record.id, wanted)

    def has_snapshot(self, snapshot: str) -> bool:
        """Say whether a snapshot is here, whole."""
        return (self._home / "snapshots" / snapshot / "manifest.json").exists()

    def put_snapshot(self, snapshot: str, folder: Path) -> None:
        """Keep what `folder` holds as the snapshot of that hash."""
        receive(self._home, snapshot, folder)

    # -- how it stands

    def health(self) -> Document:
        """Return how it stands."""
        silent = time.monotonic() - self._turned
        stuck = None if silent < _UNWELL_AFTER else f"no turn for {silent:.0f} seconds"
        wrong = self._trouble or self._turns.undecided or stuck
        return {
            "ok": wrong is None,
            "wrong": wrong,
            "engine": self._engine.name,
            "policy": self._policy.name,
            "quotas": dict(self._turns.quotas),
            "learning": self._turns.unlearned,
            "emulated": self._engine.cluster().emulated,
        }

    def metrics(self) -> list[Sample]:
        """Return samples of queue, jobs, devices and decisions."""
        return measures(self._store, self._engine.cluster(), self._turns)


def _done(job: Job, action: str) -> bool:
    """Say whether the job is where the action leads: asked again, it changes nothing."""
    record = job.record
    return (
        (action == "pause" and (record.state == "paused" or record.goal == "paused"))
        or (action == "stop" and (record.state == "cancelled" or record.goal == "cancelled"))
        or (action == "resume" and record.state in ("queued", "probing", "running", "rescaling"))
        or (action == "resume" and record.goal == "queued")  # preempted, it comes back by itself
    )


def build_service(
    home: Path,
    cluster: Path | None,
    engine: str,
    policy_name: str,
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    quotas: Mapping[str, int] | None = None,
) -> Service:
    """Return the controller of a home.

    Args:
        home: the folder of everything Staves keeps.
        cluster: the cluster file; None for the last one that there was, or else the devices that
            the engine finds.
        engine: its name.
        policy_name: its name.
        options: of the engine, by name.
        quotas: as of `Controller`.

    Raises:
        InputError: there is no such engine, option or policy, the policy does not honour quotas, or
            the cluster file is malformed.
        StavesError: the engine's cluster does not answer.
    """
    chosen = policy(policy_name)
    check_quotas(chosen, quotas or {})
    built = build_engine(engine, home, cluster, options)
    return Controller(home, built, chosen, Store(home / "service"), quotas)
