"""Slurm's nodes: each agent is a Slurm job of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from staves.engines.agents import AgentOrder, AgentState, Nodes
from staves.engines.slurm import _discovery
from staves.engines.slurm._commands import CommandError, run
from staves.engines.slurm._discovery import SlurmNode
from staves.engines.slurm._notes import Notes
from staves.engines.slurm._options import checked
from staves.engines.slurm._script import script
from staves.errors import StavesError
from staves.hardware import LOCAL_CPU, Cluster, parse_cluster, to_document

_ENDS_WITHIN = 3.0  # seconds for a job to end by itself, once its agent's line has
_LOOK = 0.1  # seconds between two looks at one that ends

_PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
_RUNNING = {"RUNNING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "RESIZING"}


class SlurmNodes(Nodes):
    """The nodes of a Slurm cluster on which this user may submit jobs.

    A job that Slurm runs cannot give back a part of what it holds of a node. So one Slurm job is
    for one device, unless `holds` says otherwise: growth is further jobs, and shrinking ends some.

    Args:
        folder: where agents' own words go, `AGENT.log`; the same on all nodes.
        cluster: as in a cluster file: device types that are not known or are emulated, links of
            nodes, and `local-cpu` devices of nodes by their names. Which nodes there are, and their
            GPUs, Slurm tells.
        partition: Slurm's default one where None.
        account: likewise.
        time_limit: of each Slurm job, as `sbatch --time` takes it; the partition's where None.
        options: further options of `sbatch`, `qos=high` or `exclusive`, with or without `--`.
        holds: device or group, as of any nodes.
        pending_within: seconds, as of any nodes; a queue may take long.
        notice: seconds before its time limit, at least, at which an agent is told to leave.

    Raises:
        InputError: an option is one that Staves sets itself, or the cluster is malformed.
    """

    name: ClassVar[str] = "slurm"

    def __init__(
        self,
        *,
        folder: str,
        cluster: Mapping[str, Any] | None = None,
        partition: str | None = None,
        account: str | None = None,
        time_limit: str | None = None,
        options: Sequence[str] = (),
        holds: Literal["device", "group"] = "device",
        pending_within: float = 300.0,
        notice: float = 120.0,
    ) -> None:
        self._folder = Path(folder).absolute()
        self._file = None if cluster is None else parse_cluster(json.dumps(cluster))
        self._partition, self._account, self._time_limit = partition, account, time_limit
        self._options = checked(options)
        self.holds, self.pending_within, self.notice = holds, pending_within, notice
        self._nodes: dict[str, SlurmNode] = {}
        self._jobs: dict[str, str] = {}
        self._notes: Notes | None = None

    def options(self) -> Mapping[str, Any]:
        """Return the keywords that make another one like this."""
        return {
            "folder": str(self._folder),
            "cluster": None if self._file is None else to_document(self._file),
            "partition": self._partition,
            "account": self._account,
            "time_limit": self._time_limit,
            "options": self._options,
            "holds": self.holds,
            "pending_within": self.pending_within,
            "notice": self.notice,
        }

    def discover(self) -> Cluster:
        """Return the nodes that are up, in the partition, with their GPUs by type."""
        words = ["sinfo", "--Node", "--noheader", f"--format={_discovery.FORMAT}"]
        if self._partition is not None:
            words.append(f"--partition={self._partition}")
        reserved = any(option.startswith("--reservation") for option in self._options)
        found = _discovery.parse(run(*words), reserved=reserved)
        self._nodes = {node.name: node for node in found}
        return _discovery.cluster_of(found, self._file)

    def start_agent(self, order: AgentOrder) -> None:
        """Submit a job for it, which is noted before anything else is done."""
        if self._notes is None:
            notes = Notes(self._folder)
            for agent, job in notes.orphans():
                _cancel(agent, job)
            self._notes = notes
        words = ["sbatch", "--parsable", *self._options, *self._claim(order)]
        job = run(*words, text=script(order.command()), environ=order.environ)
        self._jobs[order.agent] = job.strip().partition(";")[0]  # JOB;CLUSTER in a federation
        self._notes.add(order.agent, self._jobs[order.agent])

    def agent_state(self, agent: str) -> AgentState:
        """Return how its job stands, with Slurm's own reason."""
        job = self._jobs.get(agent)
        if job is None:
            return AgentState("ended", "it was never started")
        state, reason, start = _look(job)
        if state in _PENDING:
            words = f"Slurm job {job} is {state.lower()}: {reason}"
            return AgentState("pending", words if start == "N/A" else f"{words}, until {start}")
        if state in _RUNNING:
            return AgentState("running")
        why = f": {reason}" if reason not in ("", "None") else ""
        return AgentState("ended", f"Slurm job {job}: {state.lower()}{why}{self._last_word(agent)}")

    def end_agent(self, agent: str) -> None:
        """Let its job end by itself, as it does at once where its agent is told; else cancel it."""
        job = self._jobs.get(agent)
        if job is None:
            return
        end = time.monotonic() + _ENDS_WITHIN
        while _look(job)[0] in _RUNNING and time.monotonic() < end:
            time.sleep(_LOOK)
        _cancel(agent, job)
        del self._jobs[agent]

    def close(self) -> None:
        """Forget the jobs; all have been ended."""
        if self._notes is not None:
            self._notes.close()
            self._notes = None

    def _claim(self, order: AgentOrder) -> list[str]:
        """Return the options of `sbatch` that are ours; the last of two that are alike wins."""
        counts: dict[str, int] = {}
        for device in order.devices:
            counts[device.type.name] = counts.get(device.type.name, 0) + 1
        if order.node not in self._nodes:
            self.discover()
        if order.node not in self._nodes:
            raise StavesError(f"{order.node} is down, drained, or not in the partition")
        declared = {} if self._file is None else self._file.types
        gres = _discovery.gres_for(self._nodes[order.node], counts, declared)
        words = {
            "partition": self._partition,
            "account": self._account,
            "time": self._time_limit,
            "gres": gres or None,
            "cpus-per-task": str(counts[LOCAL_CPU]) if LOCAL_CPU in counts else None,
            "nodelist": order.node,
            "nodes": "1",
            "ntasks": "1",
            "job-name": _job_name(order.agent),
            "comment": f"staves: an agent, started from {self._folder.parent}",
            "chdir": str(self._folder),
            "output": str(self._folder / f"{order.agent}.log"),
            "signal": f"B:USR1@{self.notice:.0f}",
            "export": "ALL",
        }
        # A requeued agent would be one that nobody waits for: the supervisor submits another job.
        return ["--no-requeue", *(f"--{name}={word}" for name, word in words.items() if word)]

    def _last_word(self, agent: str) -> str:
        """Return the last line that it has printed, as the end of a sentence."""
        try:
            lines = (self._folder / f"{agent}.log").read_text(errors="replace").split("\n")
        except FileNotFoundError:
            return ""
        last = [line for line in lines if line.strip()]
        return f": {last[-1]}" if last else ""


def _job_name(agent: str) -> str:
    return f"staves-{agent}"


def _look(job: str) -> tuple[str, str, str]:
    """Return state, reason and expected start of a job; one that Slurm has forgotten has ended."""
    text = _queue(job, "--states=all", "--format=%T|%r|%S")
    state, reason, start = (text or "ENDED||N/A").split("|")
    return state, reason, start


def _queue(job: str, *options: str) -> str:
    try:
        return run("squeue", "--noheader", f"--jobs={job}", *options).strip()
    except CommandError as error:
        if "Invalid job id" not in error.message:
            raise
        return ""


def _cancel(agent: str, job: str) -> None:
    """Cancel a job that is ours: one of that number which bears another name is let alone."""
    name = f"--name={_job_name(agent)}"
    if not _queue(job, name):
        return
    try:
        run("scancel", name, job)
    except CommandError:
        if _queue(job, name):  # it has not ended meanwhile
            raise
