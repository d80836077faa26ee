"""What people wrote, checked before anything is made of it: errors name the option or the field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import StringConstraints, TypeAdapter, ValidationError

from staves.errors import InputError, quoted
from staves.kubernetes import _models as models
from staves.kubernetes._devices import resource_for
from staves.kubernetes._trainjob_models import RESERVED
from staves.kubernetes._workload import Platform, Workload

SHARED_MEMORY_PATH = "/dev/shm"

_TAKEN = ("kueue.x-k8s.io", "jobset.sigs.k8s.io", "batch.kubernetes.io", "trainer.kubeflow.org")
"""Domains of labels by which the parts of a cluster know what is theirs."""

_NAME = "lower-case letters, digits and dashes, at most 63, a letter first"
_OBJECT = "lower-case letters, digits, dashes and dots"
_KEY = "letters, digits, '-', '_' and '.', after a domain and a slash if there is one"
_VALUE = "at most 63 letters, digits, '-', '_' and '.'"

_RULES: dict[str, tuple[TypeAdapter[Any], str]] = {
    "name": (TypeAdapter(models.Dns1035), _NAME),
    "namespace": (TypeAdapter(models.Dns1123), "lower-case letters, digits and dashes, at most 63"),
    "object": (TypeAdapter(models.Subdomain), _OBJECT),
    "labelled": (
        TypeAdapter(Annotated[models.Subdomain, StringConstraints(max_length=63)]),
        f"{_OBJECT}, at most 63",
    ),
    "key": (TypeAdapter(models.QualifiedName), _KEY),
    "value": (TypeAdapter(models.LabelValue), _VALUE),
    "image": (TypeAdapter(models.Image), "at most 500 characters, no blanks"),
    "quantity": (TypeAdapter(models.Quantity), "a number with a unit like m, Mi or Gi, or none"),
    "path": (TypeAdapter(models.MountPath), "an absolute path without a colon"),
    "variable": (
        TypeAdapter(models.VariableName),
        "letters, digits, '-', '_' and '.', no digit first",
    ),
}


def check(workload: Workload, platform: Platform) -> None:
    """Refuse what a cluster would refuse, and what does not go together.

    Raises:
        InputError: the message begins with the option, or the field of the job file.
    """
    for where, rule, text in _texts(workload, platform):
        adapter, wanted = _RULES[rule]
        try:
            adapter.validate_python(text)
        except ValidationError:
            raise InputError(
                f"{where}: Kubernetes takes no {quoted(text)} here", hint=f"use {wanted}"
            ) from None
    _check_variables(workload, platform)
    _check_mounts(platform)
    _check_labels(platform)
    _check_sizes(platform)
    if platform.priority_class is not None and platform.queue is None:
        raise InputError(
            "--priority-class: is Kueue's, and no queue is named", hint="add --queue NAME"
        )
    named = [group.types for group in workload.groups]
    for name in platform.selectors:
        if all(named) and not any(name in types for types in named):
            raise InputError(
                f"--select: the job is not to have {quoted(name)}",
                hint=f"its types: {', '.join(sorted({each for types in named for each in types}))}",
            )
    makers = {resource_for(group.types) for group in workload.groups}
    if len(makers) > 1:
        raise InputError(
            "--count: GPUs of several makers, or GPUs and CPUs, cannot train together in pods",
            hint="name types of one maker",
        )


def check_pods(workload: Workload, group: str, replicas: int, completions: int) -> None:
    """Refuse a name that is too long once the names of pods are made of it.

    Raises:
        InputError: it is.
    """
    try:
        models.pod_name_fits(workload.name, group, replicas, completions)
    except ValueError as error:
        raise InputError(f"--name: {error}", hint="give a shorter one: --name NAME") from None


def _texts(workload: Workload, platform: Platform) -> Iterator[tuple[str, str, str]]:
    """Yield option or field, the rule that it goes by, and its text."""
    single = [
        ("--name", "name", workload.name),
        ("--namespace", "namespace", platform.namespace),
        ("--image", "image", platform.image),
        ("--queue", "labelled", platform.queue),
        ("--priority-class", "labelled", platform.priority_class),
        ("--service-account", "object", platform.service_account),
        ("--pull-secret", "object", platform.pull_secret),
        ("--secret", "object", platform.secret),
        ("--cpu", "quantity", platform.cpu),
        ("--memory", "quantity", platform.memory),
        ("--runtime", "object", platform.runtime[1]),
    ]
    yield from ((where, rule, text) for where, rule, text in single if text is not None)
    for key, value in platform.labels.items():
        yield "--label", "key", key
        yield "--label", "value", value
    for keys in platform.selectors.values():
        for key, values in keys.items():
            yield "--select", "key", key
            yield from (("--select", "value", value) for value in values)
    for where, claim in _claims(platform):
        yield where, "object", claim[0]
        yield where, "path", claim[1]
    yield from (("env", "variable", name) for name in workload.env)
    yield from (("pass_env", "variable", name) for name in workload.secrets)


def _claims(platform: Platform) -> Iterator[tuple[str, tuple[str, str]]]:
    if platform.checkpoints is not None:
        yield "--checkpoints", (platform.checkpoints.name, platform.checkpoints.path)
    yield from (("--claim", (claim.name, claim.path)) for claim in platform.claims)


def _check_variables(workload: Workload, platform: Platform) -> None:
    if workload.secrets and platform.secret is None:
        raise InputError(
            f"pass_env: {quoted(workload.secrets[0])} is not written into a manifest",
            hint="put it into a Secret of the cluster, and name that: --secret NAME",
        )
    for where, names in (("env", tuple(workload.env)), ("pass_env", workload.secrets)):
        if taken := sorted(RESERVED.intersection(names)):
            raise InputError(
                f"{where}: {taken[0]} tells torchrun its place, and is set by the manifest",
                hint="take it out",
            )


def _check_mounts(platform: Platform) -> None:
    seen = {SHARED_MEMORY_PATH}
    for where, (_, path) in _claims(platform):
        place = path.rstrip("/") or "/"
        if place in seen:
            raise InputError(
                f"{where}: two volumes are to be seen at {quoted(place)}", hint="name another path"
            )
        if place == "/":
            raise InputError(
                f"{where}: a volume at / would hide the image", hint="name a folder: /data"
            )
        seen.add(place)


def _check_labels(platform: Platform) -> None:
    for key in platform.labels:
        if key.partition("/")[0] in _TAKEN:
            raise InputError(
                f"--label: {quoted(key)} is for the cluster's own parts to set",
                hint="--queue and --priority-class say what Kueue is to know",
            )


def _check_sizes(platform: Platform) -> None:
    for where, text in (("--cpu", platform.cpu), ("--memory", platform.memory)):
        if text is None:
            continue
        if _is_zero(text):
            raise InputError(f"{where}: {quoted(text)} is nothing", hint="name more than 0")
        if where == "--memory" and text.endswith("m"):
            raise InputError(
                f"--memory: {quoted(text)} are thousandths of a byte", hint="Mi or Gi: 5Mi"
            )


def _is_zero(text: str) -> bool:
    number = re.match(r"[+-]?([0-9]*\.?[0-9]*)", text)
    return number is not None and not float(number[1] or 0)
