"""What JobSet's controller and the kubelet make of a manifest: pods, each with what it runs.

Our own reading of their rules, and no cluster: pods and indices as JobSet's controller makes them,
`$(NAME)` and `$$` in commands and values as the kubelet replaces them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: by which name others find it, and what it runs with which variables."""

    host: str
    command: list[str]
    env: dict[str, str]


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace references to variables; of `$$` one is left, and unknown names stay."""

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replaced, text)


def pods_of(manifest: Mapping[str, Any], secrets: Mapping[str, str]) -> list[Pod]:
    """Return the pods of a JobSet; `secrets` are the values in the Secrets of the cluster."""
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    pods: list[Pod] = []
    for job in spec["replicatedJobs"]:
        for index in range(job["replicas"]):
            template = job["template"]["spec"]
            assert template["parallelism"] == template["completions"] == 1
            annotations = {"jobset.sigs.k8s.io/job-global-index": str(len(pods))}
            (container,) = template["template"]["spec"]["containers"]
            env: dict[str, str] = {}
            for variable in container.get("env", ()):
                env[variable["name"]] = _value(variable, env, annotations, secrets)
            command = [expand(word, env) for word in container["command"]]
            pods.append(Pod(f"{name}-{job['name']}-{index}-0.{name}", command, env))
    return pods


def _value(
    variable: Mapping[str, Any],
    env: Mapping[str, str],
    annotations: Mapping[str, str],
    secrets: Mapping[str, str],
) -> str:
    source = variable.get("valueFrom")
    if source is None:
        return expand(variable["value"], env)
    if "secretKeyRef" in source:
        return secrets[source["secretKeyRef"]["key"]]
    match = re.fullmatch(r"metadata\.annotations\['(.*)'\]", source["fieldRef"]["fieldPath"])
    assert match is not None
    return annotations[match[1]]
