"""What the API shows of jobs and nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from staves.engines._base import Status
from staves.hardware import Cluster
from staves.service._beliefs import progress_of
from staves.service._rows import Job, Span, StoryLine


def job_document(job: Job, status: Status | None) -> dict[str, Any]:
    """Return one line about a job; `status` is that of its attempt under way."""
    record = job.record
    return {
        "id": record.id,
        "name": record.name,
        "state": record.state,
        "owner": job.owner,
        "attempt": record.attempt,
        "elastic": record.elastic,
        "devices": list(record.devices),
        "reason": record.reason,
        "pending": status.pending if status else "",
        "submitted": job.submitted,
        "started": job.started,
        "finished": job.finished,
        "progress": dict(progress_of(job, status)),
    }


def whole_document(
    job: Job, status: Status | None, spans: Sequence[Span], story: Sequence[StoryLine]
) -> dict[str, Any]:
    """Return all about a job."""
    return {
        **job_document(job, status),
        "spec": job.spec.public_document(),
        "snapshot": job.snapshot,
        "knowledge": (status.knowledge if status else None) or job.knowledge,
        "summary": job.summary,
        "spans": [
            {
                "attempt": span.attempt,
                "devices": list(span.devices),
                "since": span.since,
                "until": span.until,
                **span.figures,
            }
            for span in spans
        ],
        "story": [
            {
                "time": line.time,
                "event": line.event,
                "before": line.before,
                "after": line.after,
                "text": line.text,
            }
            for line in story
        ],
    }


def node_documents(
    cluster: Cluster, drained: Collection[str], holders: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return all nodes with their devices; `holders` says which job (id) has which device."""
    nodes: dict[str, dict[str, Any]] = {
        node.name: {
            "name": node.name,
            "state": "drained" if node.name in drained else "up",
            "devices": [],
        }
        for node in cluster.nodes
    }
    for device in cluster.devices():
        nodes[device.node]["devices"].append(
            {
                "name": device.name,
                "type": device.type.name,
                "emulated": device.type.emulated,
                "job": holders.get(device.name),
            }
        )
    return list(nodes.values())
