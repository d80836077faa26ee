"""A Slurm cluster of several daemons on this machine, in a folder of its own.

One `slurmctld`, a `munged`, and a `slurmd` for each node, on free ports and with a key of their
own. Plain files stand for the GPUs. All are children of this process, and are ended by their pids.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from staves.errors import StavesError

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol", "sinfo", "squeue", "scancel")
PATIENCE = 120.0  # seconds

_CONF = """\
ClusterName=staves
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
UnkillableStepTimeout=10
InactiveLimit=0
OverTimeLimit=0
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10
"""


def installed() -> bool:
    """Whether the programs are there."""
    return all(shutil.which(program, path=_path()) for program in PROGRAMS)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited for {what} in vain"
        time.sleep(0.05)


class SlurmDaemons:
    """The cluster.

    Args:
        gres: by node, its GPUs as Slurm writes them: `gpu:emu:2`; or nothing.
        cpus: of each node, as Slurm is told.
    """

    def __init__(self, gres: dict[str, str], cpus: int = 8) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="staves-slurm-"))  # sockets want a short path
        self.folder.chmod(0o755)
        self.conf = self.folder / "slurm.conf"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._configure(gres, cpus)
        self.nodes = list(gres)
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    def _configure(self, gres: dict[str, str], cpus: int) -> None:
        ports = iter(_free_ports(1 + len(gres)))
        port = next(ports)
        nodes, devices = [], []
        for name, text in gres.items():
            line = f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={next(ports)}"
            line += f" CPUs={cpus} RealMemory=8000 State=UNKNOWN"
            nodes.append(f"{line} Gres={text}" if text else line)
            for part in filter(None, text.split(",")):
                _, kind, count = part.split(":")
                for number in range(int(count)):
                    file = self.folder / f"{name}-{kind}-{number}"
                    file.touch()
                    devices.append(f"NodeName={name} Name=gpu Type={kind} File={file}")
        user = pwd.getpwuid(os.getuid()).pw_name
        conf = _CONF.format(port=port, user=user, folder=self.folder, nodes="\n".join(nodes))
        self.conf.write_text(conf)
        (self.folder / "gres.conf").write_text("\n".join(devices) + "\n")
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))

    def _start_all(self) -> None:
        words = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "seed")]
        munge = self.folder / "munge.socket"
        log = f"--log-file={self.folder}/munged.log"
        self._start("munged", "--foreground", "--force", f"--socket={munge}", log, *words)
        until(munge.exists, f"munged: {self.log('munged')}")
        self._start("slurmctld", "-D", "-f", str(self.conf))
        for node in self.nodes:
            self.up(node, wait=False)
        until(lambda: self._answers(self.nodes), "the nodes")

    def up(self, node: str, *, wait: bool = True) -> None:
        """Start the daemon of a node."""
        self._start("slurmd", "-D", "-N", node, "-f", str(self.conf), name=node)
        if wait:
            until(lambda: self._answers([node]), f"{node}: {self.log(node)}")

    def down(self, node: str) -> None:
        """Take a node away as when its power goes: its daemon, and all that runs on it."""
        self._kill(node)
        while pids := self._on(node):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _on(self, node: str) -> set[int]:
        """Return the processes of jobs on a node: those that Slurm started, and their keepers."""
        marks = {f"SLURMD_NODENAME={node}".encode(), f"SLURM_CONF={self.conf}".encode()}
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                if marks <= set((path / "environ").read_bytes().split(b"\0")):
                    parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                    found.add(int(path.name))
                    if b"slurmstepd" in Path(f"/proc/{parent}/cmdline").read_bytes():
                        found.add(parent)
        return found

    def run(self, *words: str) -> str:
        """Run a command of Slurm on this cluster and return what it printed."""
        environ = {**os.environ, "SLURM_CONF": str(self.conf)}
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StavesError(f"{words[0]}: {done.stderr}")
        return done.stdout.strip()

    def submit(self, *options: str, command: str = "sleep 1000") -> str:
        """Submit a job that is nobody's, and return its id."""
        out = f"--output={self.folder}/stranger-%j.log"
        return self.run("sbatch", "--parsable", out, *options, f"--wrap=exec {command}")

    def state(self, job: str) -> str:
        """Return the state of a job, in Slurm's words."""
        return self.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")

    def jobs(self, name: str = "staves-") -> list[str]:
        """Return the ids of the jobs whose names begin so and that have not ended."""
        lines = self.run("squeue", "--noheader", "--format=%i|%j").splitlines()
        return [line.split("|")[0] for line in lines if line.split("|")[1].startswith(name)]

    def log(self, name: str) -> str:
        """Return what a daemon has printed."""
        path = self.folder / f"{name}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def tidy(self) -> None:
        """Have all nodes up again, and nothing running."""
        self.run("scancel", "--me")
        for node in self.nodes:
            if node not in self._processes:
                self.up(node, wait=False)
        until(lambda: not self.run("squeue", "--noheader"), "the jobs to end")
        until(lambda: self._answers(self.nodes), "the nodes")

    def close(self) -> None:
        """End its jobs, then its daemons, by their pids; leave nothing."""
        with contextlib.suppress(StavesError):
            self.run("scancel", "--me")
        for node in self.nodes:
            self.down(node)
        for name in reversed(list(self._processes)):
            self._processes[name].terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._processes[name].wait(10)
            self._kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self, nodes: Sequence[str]) -> bool:
        with contextlib.suppress(StavesError):
            lines = self.run("sinfo", "--Node", "--noheader", "--format=%N %T").splitlines()
            states = dict(line.split() for line in lines)
            return all(states.get(node) in ("idle", "mixed", "allocated") for node in nodes)
        return False

    def _start(self, program: str, *words: str, name: str | None = None) -> None:
        name = name or program
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", program, *words],
                env={**os.environ, "PATH": _path(), "SLURM_CONF": str(self.conf)},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _kill(self, name: str) -> None:
        if process := self._processes.pop(name, None):
            process.kill()
            process.wait()


def _path() -> str:
    """Return where programs are looked for: daemons are in folders for administrators."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
