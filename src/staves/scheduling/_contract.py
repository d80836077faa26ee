"""What a policy answers, looked over before anybody acts on it."""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np

from staves.errors import StavesError, quoted
from staves.scheduling._configurations import allowed, in_words
from staves.scheduling._policy import Policy
from staves.scheduling._quotas import allowances, used
from staves.scheduling._view import Counts, Decision, JobView, View


def decision_of(policy: Policy, view: View) -> Decision:
    """Return what the policy decides for the view.

    Counts come back as tuples of plain integers, whatever whole numbers they were.

    Raises:
        StavesError: the policy failed, or its decision breaks the contract of `Policy.decide`; the
            message names the policy and the job, and the cause is chained.
    """
    who = f"the policy {quoted(getattr(policy, 'name', type(policy).__name__))}"
    try:
        decision = policy.decide(view)
    except StavesError as error:
        raise StavesError(f"{who}: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise StavesError(
            f"{who} failed with {type(error).__name__}{_where(error, policy)}: {error}"
        ) from error
    if not isinstance(decision, Decision):
        raise StavesError(f"{who} returned {_kind(decision)}, which is no scheduling.Decision")
    try:
        chosen = {job: _counts(counts) for job, counts in decision.chosen.items()}
    except AttributeError:
        raise StavesError(
            f"{who} returned a Decision whose `chosen` is {_kind(decision.chosen)}, and no mapping"
            " from job ids to counts"
        ) from None
    if any(chosen[job] is not counts for job, counts in decision.chosen.items()):
        decision = replace(decision, chosen=chosen)
    if broken := violation(view, decision):
        raise StavesError(f"{who} {broken}", hint="docs/writing-a-policy.md has the rules")
    return decision


def violation(view: View, decision: Decision) -> str | None:
    """Return how a decision breaks the contract of `Policy.decide`, in words; None: it does not.

    O(J G) for J jobs and G types.
    """
    jobs = {job.id: job for job in view.jobs}
    if strangers := decision.chosen.keys() - jobs.keys():
        return f"gave devices to {quoted(min(strangers, key=str))}, which is no active job"
    left = np.array(view.capacity, dtype=np.int64)
    used = np.zeros_like(left)
    for job in view.jobs:
        counts = decision.chosen.get(job.id)
        if job.pinned and job.current is not None:
            if counts != job.current:
                return (
                    f"gave {_named(job)} {_words(counts, view)}, but it is pinned: it keeps"
                    f" {_words(job.current, view)}"
                )
            left -= np.array(job.current)
        elif counts is not None:
            if not (_whole(counts, view) and allowed(job, counts)):
                return f"gave {_named(job)} {_words(counts, view)}, but {_terms(job, view)}"
            used += np.array(counts)
    left = np.maximum(left, 0)  # pinned jobs may hold more than there is, on nodes being drained
    if (used > left).any():
        return f"gave out {_words(used, view)} of {_words(left, view)}"
    if (over := _over_quota(view, decision)) is not None:
        return over
    if (taken := _not_kept(view, decision)) is not None:
        counts = decision.chosen.get(taken.id)
        return (
            f"gave {_named(taken)} {_words(counts, view)}, but {taken.guaranteed} of its"
            f" {_words(taken.current, view)} are guaranteed"
        )
    if decision.value is not None and decision.bound is not None:
        slack = 1e-9 * max(1.0, abs(decision.bound))
        if not decision.value <= decision.bound + slack:
            return f"tells a value of {decision.value:g}, above its bound {decision.bound:g}"
    return None


def _over_quota(view: View, decision: Decision) -> str | None:
    """Return in words which tenant's jobs were given more than it may have; None: none's."""
    if not view.quotas:
        return None
    most, has = allowances(view), used(view, decision.chosen)
    over = next((tenant for tenant, count in most.items() if has[tenant] > count), None)
    if over is None:
        return None
    quota = view.quotas[over]
    kept = "" if most[over] == quota else f", and {most[over]} that they have already are kept"
    return f"gave jobs of {quoted(over)} {has[over]} devices together: its quota is {quota}{kept}"


def _not_kept(view: View, decision: Decision) -> JobView | None:
    """Return a job that lost guaranteed devices, where everything that jobs hold is still there."""
    holders = [(job, job.current) for job in view.jobs if job.current is not None]
    if not any(job.guaranteed for job, _ in holders):
        return None
    held = np.sum([current for _, current in holders], axis=0)
    if (held > np.array(view.capacity)).any():
        return None
    for job, current in holders:
        counts = decision.chosen.get(job.id, (0,) * len(view.types))
        if sum(map(min, counts, current)) < min(job.guaranteed, sum(current)):
            return job
    return None


def _counts(counts: object) -> Counts:
    """Return counts as plain integers where they are whole numbers, else as they are."""
    if type(counts) is tuple and all(type(n) is int for n in counts):
        return counts
    try:
        table = np.asarray(counts)
    except ValueError:
        return counts  # type: ignore[return-value]  # `violation` refuses it
    if table.ndim == 1 and table.dtype.kind in "iu":
        return tuple(table.tolist())
    return counts  # type: ignore[return-value]


def _whole(counts: object, view: View) -> bool:
    return (
        type(counts) is tuple
        and len(counts) == len(view.types)
        and all(type(n) is int and n >= 0 for n in counts)
    )


def _words(counts: object, view: View) -> str:
    if counts is None:
        return "nothing"
    if isinstance(counts, np.ndarray):
        counts = tuple(counts.tolist())
    return in_words(counts, view.types) if _whole(counts, view) else quoted(counts)  # type: ignore[arg-type]


def _terms(job: JobView, view: View) -> str:
    types = view.types if job.types is None else [view.types[g] for g in sorted(job.types)]
    span = f"{job.minimum} to {job.maximum}" if job.minimum < job.maximum else f"{job.maximum}"
    sizes = "1 device" if span == "1" else f"{span} devices"
    alike = "" if job.mix else " of one type"
    return (
        f"it may have {sizes}{alike} out of {', '.join(types)}, as whole numbers for each"
        f" of {', '.join(view.types)}"
    )


def _named(job: JobView) -> str:
    return quoted(job.label)


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _where(error: Exception, policy: Policy) -> str:
    """Return the file and line, of the policy's own module where it was on the way."""
    frames = traceback.extract_tb(error.__traceback__)
    module = sys.modules.get(type(policy).__module__)
    own = [frame for frame in frames if frame.filename == getattr(module, "__file__", None)]
    last = (own or frames)[-1:]
    return "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in last)
