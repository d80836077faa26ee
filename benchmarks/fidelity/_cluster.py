"""A trace on a real service: real processes of emulated devices."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fidelity._trace import TraceJob
from staves.errors import StavesError
from staves.service import Client, ServiceFolder, Settings, down, pack_job, read_job, up

CLUSTER = Path(__file__).parent / "cluster.yaml"
ROOT = Path(__file__).parents[2]

_PATIENCE = 1200.0  # seconds
_ENDED = {"finished", "failed", "cancelled"}


def run_trace(trace: Sequence[TraceJob], home: Path, policy: str) -> list[dict[str, Any]]:
    """Run a trace on a service of its own, and return all about every job, as the API shows it.

    Raises:
        StavesError: a job does not finish.
    """
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    settings = Settings(
        home,
        cluster=CLUSTER,
        policy=policy,
        controller="benchmarks.fidelity._recording:build_service",
    )
    up(settings)
    try:
        with Client(home, environ={}, patience=60.0) as client:
            return _submit_and_wait(client, home, trace)
    finally:
        down(ServiceFolder(home), grace=30.0)


def _submit_and_wait(client: Client, home: Path, trace: Sequence[TraceJob]) -> list[dict[str, Any]]:
    prepared = []
    for job in trace:
        file = home / f"{job.name}.yaml"
        file.write_text(json.dumps(job.document))
        spec = read_job(file)
        snapshot = pack_job(spec, home)
        client.put_snapshot(snapshot.hash, home / "snapshots" / snapshot.hash)
        prepared.append((job.arrival, spec.to_document(), snapshot.hash))
    begun = time.monotonic()
    while True:
        passed = time.monotonic() - begun
        while prepared and prepared[0][0] <= passed:
            client.submit(*prepared.pop(0)[1:])
        jobs = client.jobs(everything=True)
        states = [job["state"] for job in jobs]
        line = f"{passed:5.0f} s: {states.count('finished')} of {len(trace)} jobs have finished"
        print(line, end="\r", file=sys.stderr, flush=True)
        if not prepared and all(state in _ENDED for state in states):
            break
        if passed > _PATIENCE:
            raise StavesError("the jobs do not end", hint="the machine is very busy")
        wait = 1.0 if not prepared else min(1.0, max(0.0, prepared[0][0] - passed))
        time.sleep(wait)
    print(file=sys.stderr)
    if bad := [job for job in jobs if job["state"] != "finished"]:
        raise StavesError(f"{bad[0]['name']} is {bad[0]['state']}: {bad[0]['reason']}")
    return [client.job(job["id"]) for job in jobs]
