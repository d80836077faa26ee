"""The cluster as the scheduler sees it: nodes, queue, decisions; and the service itself."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request, Response

from staves.documents import suggestion
from staves.errors import quoted
from staves.service._callers import Administrator, Reader, TheService
from staves.service._exposition import CONTENT_TYPE, exposition
from staves.service._facade import Caller, Document, Service, UnknownName
from staves.service._guard import http_samples

router = APIRouter(tags=["cluster"])
outside = APIRouter(tags=["service"])
"""What stands outside /api/v1."""


@router.get("/queue")
def queue(service: TheService, caller: Reader) -> Document:
    """List the jobs that wait, the next one first; those of others without their names."""
    return {"queue": [_shaded(entry, caller) for entry in service.queue()]}


@router.get("/nodes")
def nodes(service: TheService, caller: Reader) -> Document:
    """List the nodes and their devices."""
    own = _own(service, caller)
    shown = []
    for node in service.nodes():
        devices = [_without_strangers(device, own) for device in node["devices"]]
        shown.append({**node, "devices": devices})
    return {"nodes": shown}


@router.post("/nodes/{node}/drain")
def drain(node: str, service: TheService, caller: Administrator) -> Document:
    """Take a node out of use; its jobs are moved away."""
    return service.drain(_known_node(service, node), True)


@router.post("/nodes/{node}/undrain")
def undrain(node: str, service: TheService, caller: Administrator) -> Document:
    """Take a node back into use."""
    return service.drain(_known_node(service, node), False)


@router.get("/decisions")
def decisions(service: TheService, caller: Reader) -> Document:
    """List the last decisions, newest first, as far as they concern the caller's jobs."""
    shown = service.decisions()
    if caller.owner is not None:
        shown = [
            {**made, "jobs": [job for job in made["jobs"] if job["owner"] == caller.owner]}
            for made in shown
        ]
    return {"decisions": shown}


@router.get("/history")
def history(service: TheService, caller: Reader) -> Document:
    """List how fast jobs were measured to be, the caller's own; all for administrators."""
    return {"history": service.history(owner=caller.owner)}


@router.post("/shutdown", status_code=202)
def shutdown(request: Request, caller: Administrator) -> Document:
    """End all jobs, saved first and queued again, and then the service. Returns at once."""
    request.app.state.end()
    return {"ending": True}


@router.get("/health")
def health(service: TheService, caller: Reader) -> Document:
    """Say how the service stands, and what is wrong where something is."""
    return service.health()


@outside.get("/healthz")
def healthz(service: TheService, response: Response) -> Document:
    """Say whether the service is well: 200, or 503. Needs no token, and says no more."""
    ok = bool(service.health()["ok"])
    response.status_code = 200 if ok else 503
    return {"ok": ok}


@outside.get("/metrics", response_class=Response)
def metrics(request: Request, service: TheService, caller: Reader) -> Response:
    """Return the metrics in the text format of Prometheus."""
    answered: Counter[tuple[str, int]] = request.app.state.answered
    samples = [*service.metrics(), *http_samples(answered)]
    return Response(exposition(samples), headers={"Content-Type": CONTENT_TYPE})


def _shaded(entry: Document, caller: Caller) -> Document:
    if caller.owner in (None, entry["owner"]):
        return entry
    return {**dict.fromkeys(entry), "position": entry["position"]}


def _own(service: Service, caller: Caller) -> frozenset[str] | None:
    """Return the ids of the caller's jobs, or None for one who sees all."""
    if caller.owner is None:
        return None
    return frozenset(job["id"] for job in service.jobs(everything=False, owner=caller.owner))


def _without_strangers(device: Document, own: frozenset[str] | None) -> Document:
    """Return a device; that it is taken is for everyone to see, by whose job is not."""
    if own is None or device["job"] is None or device["job"] in own:
        return device
    return {**device, "job": "another's"}


def _known_node(service: Service, name: str) -> str:
    names = [node["name"] for node in service.nodes()]
    if name not in names:
        raise UnknownName(f"there is no node {quoted(name)}", hint=suggestion(name, names))
    return name
