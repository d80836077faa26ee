"""From what the service tells of jobs to the demo's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from examples.demo._view import Job, by_type

_TELLING = 25
"""Steps on the same devices from which on figures mean something."""


def job_line(job: Mapping[str, Any]) -> Job:
    """Return what the live view shows of a job."""
    progress = job["progress"]
    samples, total = progress.get("samples"), progress.get("total_samples")
    step, batch = progress.get("step_seconds"), progress.get("batch")
    rate = batch / step if step and batch and job["devices"] else None
    known = samples is not None and total
    done = job["state"] == "finished"
    return Job(
        name=job["name"],
        state=job["state"],
        devices=job["devices"],
        progress=1.0 if done else samples / total if known else None,
        samples_per_second=rate,
        local_batches=progress.get("local_batches") or [] if job["devices"] else [],
        loss=progress.get("loss"),
        eta_seconds=(total - samples) / rate if rate and known else None,
    )


def summarise(
    jobs: Sequence[Mapping[str, Any]],
    decisions: Sequence[Mapping[str, Any]],
    *,
    started: float,
    seconds: float,
) -> dict[str, Any]:
    """Return the summary: see `docs/files.md`.

    Args:
        jobs: as the API shows each of them, with spans.
        decisions: newest first.
        started: Unix seconds.
        seconds: that the demo has taken.
    """
    return {
        "emulated": True,
        "seconds": seconds,
        "jobs": [_of_job(job, started) for job in jobs],
        "explained": explained(decisions),
    }


def types_of(span: Mapping[str, Any]) -> set[str]:
    """Return the device types of a span."""
    return {name.rpartition("/")[2].rpartition("-")[0] for name in span["devices"]}


def _of_job(job: Mapping[str, Any], started: float) -> dict[str, Any]:
    spans = [span for span in job["spans"] if span["steps"]]
    shown = _telling(spans)
    figures = job["summary"] or {}
    loss = figures.get("loss") or {}
    return {
        "name": job["name"],
        "state": job["state"],
        "device_types": sorted(set().union(*map(types_of, spans))),
        # Not where it only changes from one device to another, for a moment with both.
        "mixed": any(len(types_of(s)) > 1 and s["steps"] >= _TELLING for s in spans),
        "rescales": sum(a["attempt"] == b["attempt"] for a, b in pairwise(spans)),
        "pauses_seconds": [span["pause_seconds"] for span in spans if span["pause_seconds"]],
        "jct_seconds": (job["finished"] or 0.0) - job["submitted"],
        "submitted_seconds": job["submitted"] - started,
        "devices": shown["devices"],
        "local_batches": shown["local_batches"],
        "step_seconds": shown["step_seconds"],
        "predicted_step_seconds": shown["predicted_step_seconds"],
        "even_step_seconds": shown["even_step_seconds"],
        "even_step_source": shown["even_step_source"],
        "loss": {"first": loss.get("first"), "last": loss.get("last")},
        "metrics": figures.get("metrics", {}),
        "void": figures.get("void", False),
        "spans": [
            {
                "since": span["since"] - started,
                "until": span["until"] - started,
                "devices": span["devices"],
                "local_batches": span["local_batches"],
                "steps": span["steps"],
                "step_seconds": span["step_seconds"],
                "predicted_step_seconds": span["predicted_step_seconds"],
                "even_step_seconds": span["even_step_seconds"],
                "even_step_source": span["even_step_source"],
            }
            for span in spans
        ],
    }


def _telling(spans: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the span that the job's figures are of.

    The longest one in which its even split was measured, too; of unlike devices before alike ones.
    """
    empty = {"devices": [], "local_batches": [], "steps": 0} | dict.fromkeys(
        ("step_seconds", "predicted_step_seconds", "even_step_seconds", "even_step_source")
    )

    def order(span: Mapping[str, Any]) -> tuple[bool, bool, bool, int]:
        compared = span["even_step_source"] == "measured"
        return span["steps"] >= _TELLING, compared, len(types_of(span)) > 1, span["steps"]

    return max(spans, key=order, default=empty)


def explained(decisions: Sequence[Mapping[str, Any]]) -> str:
    """Return one decision in words: about most jobs at once, and unlike devices for one of them."""
    best: tuple[int, int] | None = None
    text = "No decision was made."
    for decision in decisions:
        for entry in decision["jobs"]:
            chosen = entry["chosen"]
            if chosen is None or entry["probed"]:
                continue
            kinds = sum(count > 0 for count in chosen["counts"].values())
            key = sum(bool(e["devices"]) for e in decision["jobs"]) * (kinds > 1), kinds
            if best is None or key > best:
                best = key
                has = by_type(entry["devices"])
                text = f"{decision['policy']} gave {entry['name']} {has}. {entry['text']}"
    return text
