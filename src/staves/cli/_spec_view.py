"""What a job asked for, in the words of its job file, as `staves show` tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from staves.cli._service import lasting


def asked(spec: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield names and values of a spec's document; what is as by default is left out."""
    yield "run", spec["run"]
    yield "workdir", spec["workdir"]
    yield "python", spec["python"]
    yield "asks for", ", ".join(_devices(spec))
    priority = f"priority {spec['priority']}"
    retries = f"{spec['retries']} retries"
    due = [] if spec["deadline"] is None else [f"due within {lasting(spec['deadline'])}"]
    tenant = [] if spec["tenant"] is None else [f"tenant {spec['tenant']}"]
    yield "terms", ", ".join((*tenant, priority, *due, *_preemption(spec), retries))
    if spec["reference"] is not None:
        most = "" if spec["max_batch"] is None else f", at most {spec['max_batch']}"
        yield "batch", f"{spec['reference']}{most}, {spec['scaling']}"
    if spec["checkpoint"] is not None or spec["checkpoint_every"] is not None:
        yield "checkpoint", " ".join(_checkpoint(spec))
    for name, value in (
        ("env", [f"{key}={text}" for key, text in spec["env"].items()]),
        ("pass_env", list(spec["passed_env"])),
        ("data", spec["data"]),
        ("outputs", spec["outputs"]),
    ):
        if value:
            yield name, ", ".join(value)


def _devices(spec: dict[str, Any]) -> Iterator[str]:
    least, most = spec["minimum"], spec["maximum"]
    if most is None:
        count = f"{least} or more"
    else:
        count = str(least) if least == most else f"{least} to {most}"
    yield f"{count} device{'' if count == '1' else 's'}"
    yield "of any type" if spec["types"] is None else "of " + " or ".join(spec["types"])
    if not spec["mix"]:
        yield "of one type at a time"
    if not spec["per_device"]:
        yield "started once"


def _preemption(spec: dict[str, Any]) -> Iterator[str]:
    if spec["guaranteed"]:
        yield f"{spec['guaranteed']} guaranteed"
    yield f"grace {lasting(spec['grace'])}"


def _checkpoint(spec: dict[str, Any]) -> Iterator[str]:
    if spec["checkpoint"] is not None:
        yield spec["checkpoint"]
    if spec["checkpoint_every"] is not None:
        yield f"every {lasting(spec['checkpoint_every'])}"
