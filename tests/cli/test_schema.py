from __future__ import annotations

import json

import pytest

from staves.cli import run_command
from staves.hardware import cluster_schema
from staves.service import job_schema


@pytest.mark.parametrize(
    ("kind", "expected"), [("job", job_schema()), ("cluster", cluster_schema())]
)
def test_schemas_are_printed(
    capsys: pytest.CaptureFixture[str], kind: str, expected: dict[str, object]
) -> None:
    assert run_command(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out) == expected


def test_what_has_no_schema_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["schema", "nothing"]) == 2
    assert "'job', 'cluster'" in capsys.readouterr().err
