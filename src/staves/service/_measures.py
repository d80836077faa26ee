"""The metrics of the service."""

from __future__ import annotations

import time
from collections import Counter

from staves.hardware import Cluster
from staves.service._facade import Sample
from staves.service._states import ACTIVE, STATES
from staves.service._store import Store
from staves.service._turns import Turns


def measures(store: Store, cluster: Cluster, turns: Turns) -> list[Sample]:
    """Return samples of queue, jobs, devices and decisions, as they stand."""
    jobs = store.jobs()
    states = Counter(job.record.state for job in jobs)
    samples = [
        Sample("staves_jobs", states[state], help="Jobs by state.", labels={"state": state})
        for state in STATES
    ]
    kinds = {device.name: device.type.name for device in cluster.devices()}
    used = Counter(
        kinds.get(name, "gone")
        for job in jobs
        if job.record.state in ACTIVE
        for name in job.record.devices
    )
    for kind, count in cluster.configuration.items():
        labels = {"type": kind}
        samples.append(Sample("staves_devices", count, help="Devices by type.", labels=labels))
        samples.append(
            Sample("staves_devices_used", used[kind], help="Granted to jobs.", labels=labels)
        )
    now = time.time()
    waiting = [now - job.submitted for job in jobs if job.record.state == "queued"]
    samples.append(
        Sample("staves_queue_wait_seconds", max(waiting, default=0.0), help="Longest wait now.")
    )
    samples.append(
        Sample("staves_decisions_total", turns.decided, "counter", "Decisions of this controller.")
    )
    samples.append(
        Sample("staves_decision_seconds", turns.decision_seconds, help="Of the last decision.")
    )
    samples.append(
        Sample(
            "staves_resize_pause_seconds",
            turns.pauses.resize,
            help="For which training stands still in a change in place: median of the last ones.",
        )
    )
    samples.append(
        Sample(
            "staves_resize_delay_seconds",
            turns.pauses.delay,
            help="Until granted devices are at work, in a change in place: median of the last.",
        )
    )
    for job in jobs:
        status = turns.status(job.id)
        progress = {} if status is None else status.progress
        step = progress.get("step_seconds")
        if job.record.state in ACTIVE and step:
            labels = {"job": job.id, "name": job.record.name}
            samples.append(
                Sample("staves_step_seconds", step, help="Median step of a job.", labels=labels)
            )
            samples.append(
                Sample(
                    "staves_samples_per_second",
                    float(progress.get("batch") or 0) / step,
                    help="Throughput of a job.",
                    labels=labels,
                )
            )
    return samples
