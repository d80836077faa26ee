"""What a reader of a manifest must know: what it does not say, and what nobody has tried."""

from __future__ import annotations

from staves.errors import printable
from staves.kubernetes._pod import grace
from staves.kubernetes._workload import Platform, Workload

UNTRIED = "Not run on a real cluster: checked against a model of the published API only."


def notes(workload: Workload, platform: Platform, kind: str) -> tuple[str, ...]:
    """Return a line for each thing that a manifest of `kind` ("jobset", "trainjob") leaves open."""
    lines = [UNTRIED, _devices(workload)]
    if workload.once:
        lines.append("`run` is started once, in one pod, and sees the devices of that.")
    else:
        lines.append(
            "torchrun starts `run` for each device. Staves splits each batch over unlike devices,"
            " but the job cannot grow, shrink or outlive a lost pod: then all of it starts again."
        )
    if len(workload.groups) > 1 and not workload.once:
        lines.append("All pods must run at once: without Kueue some may wait for ever.")
    if kind == "jobset" and workload.retries:
        lines.append(
            f"It starts again at most {workload.retries} times, whatever fails: the script, too."
        )
    if platform.checkpoints is None:
        lines.append("No checkpoint claim (--checkpoints): what starts again begins anew.")
    else:
        lines.append(
            f"Checkpoints are in the claim {platform.checkpoints.name}; with pods on several nodes"
            " it must be ReadWriteMany."
        )
    if platform.queue is None:
        lines.append("No queue (--queue): Kueue does not see it.")
    if platform.priority_class is None and workload.priority != 50:
        lines.append(
            f"priority {workload.priority} is not carried over: a cluster's classes have names"
            " (--priority-class)."
        )
    if kind == "trainjob":
        version = "v2.2" if grace(workload) is None else "v2.3, for its grace,"
        lines.append(
            f"Needs Kubeflow Trainer {version} and a runtime with torch whose job and container are"
            " both named node; `retries` is the runtime's own matter."
        )
    if workload.places:
        lines.append(
            "The image must hold the job's files. Left out, as places on the machine that submits:"
            f" {', '.join(workload.places)}."
        )
    if workload.unsaid:
        lines.append(f"Left out, as nothing here heeds it: {', '.join(workload.unsaid)}.")
    return tuple(printable(line) for line in lines)


def _devices(workload: Workload) -> str:
    bounds = f"{workload.minimum} to {workload.maximum or 'as many as there are'}"
    given = " and ".join(
        f"{group.count} of {' or '.join(group.types) or 'any type'}" for group in workload.groups
    )
    return f"Devices: {given}, a fixed number; the job file allows {bounds}."
