"""Manifests against the published resource definitions, where they are at hand.

`STAVES_CRDS` names a folder that holds them; docs/kubernetes.md says where they come from.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from staves.kubernetes import Platform, Workload, document, jobset, trainjob
from tests.kubernetes.openapi import Schema, problems, schema_of
from tests.kubernetes.workloads import platforms, workloads

SMALL: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4},
        "size": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "limits": {
            "type": "object",
            "additionalProperties": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"},
        },
        "parts": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {"type": "object", "properties": {"key": {"type": "string"}}},
        },
    },
}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"name": "ok", "size": 1, "mode": "a", "limits": {"gpu": "1"}}, False),
        ({"name": "ok", "parts": [{"key": "a"}, {"key": "b"}]}, False),
        ({}, True),
        ({"name": "NO"}, True),
        ({"name": "toolong"}, True),
        ({"name": 1}, True),
        ({"name": "ok", "size": 0}, True),
        ({"name": "ok", "size": True}, True),
        ({"name": "ok", "size": "1"}, True),
        ({"name": "ok", "mode": "c"}, True),
        ({"name": "ok", "other": 1}, True),
        ({"name": "ok", "limits": {"gpu": "x"}}, True),
        ({"name": "ok", "limits": {"gpu": 1.5}}, True),
        ({"name": "ok", "parts": [{"key": "a"}, {"key": "a"}]}, True),
        ({"name": "ok", "parts": [{"key": "a"}, {"key": "b"}, {"key": "c"}]}, True),
        ({"name": "ok", "parts": [{"kez": "a"}]}, True),
        ([], True),
    ],
)
def test_the_check_itself(value: object, wrong: bool) -> None:
    assert bool(list(problems(value, SMALL))) is wrong


@cache
def published(name: str, version: str) -> Schema:
    folder = os.environ.get("STAVES_CRDS")
    if folder is None:
        pytest.skip("STAVES_CRDS names no folder with the published resource definitions")
    text = (Path(folder) / name).read_text(encoding="utf-8")
    return schema_of(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), version)


@given(workloads(), platforms())
@settings(deadline=None)
def test_jobsets(workload: Workload, platform: Platform) -> None:
    schema = published("jobset.x-k8s.io_jobsets.yaml", "v1alpha2")
    assert list(problems(document(jobset(workload, platform)), schema)) == []


@given(workloads(kinds=1), platforms())
@settings(deadline=None)
def test_trainjobs(workload: Workload, platform: Platform) -> None:
    schema = published("trainer.kubeflow.org_trainjobs.yaml", "v1alpha1")
    assert list(problems(document(trainjob(workload, platform)), schema)) == []
