"""What people may set, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from staves.engines.slurm import SlurmNodes, keywords
from staves.errors import InputError
from tests.engines.slurm.cluster import nodes


def test_texts_of_a_command_line_become_keywords() -> None:
    texts = {
        "partition": "gpu",
        "account": "lab",
        "time-limit": "1-00:00",
        "sbatch": "qos=high '--mem-per-gpu=32G' exclusive",
        "holds": "group",
        "pending-within": "10m",
        "notice": "90s",
    }
    assert keywords(texts) == {
        "partition": "gpu",
        "account": "lab",
        "time_limit": "1-00:00",
        "options": ["qos=high", "--mem-per-gpu=32G", "exclusive"],
        "holds": "group",
        "pending_within": 600.0,
        "notice": 90.0,
    }


def test_the_supervisor_makes_the_same_ones(tmp_path: Path) -> None:
    given = nodes(tmp_path, partition="main", options=["qos=high"], time_limit="60", notice=30.0)
    document = json.loads(json.dumps(given.options()))
    assert SlurmNodes(**document).options() == given.options()
    assert document["options"] == ["--qos=high"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("gres=gpu:1", "gres is set by Staves"),
        ("--requeue", "requeue is set by Staves"),
        ("-p main", "not an option of sbatch"),
        ("p", "not an option of sbatch"),
        ("", "not an option of sbatch"),
    ],
)
def test_what_would_break_an_agent_is_refused(tmp_path: Path, option: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        nodes(tmp_path, options=[option])


@pytest.mark.parametrize(
    "texts",
    [
        {"holds": "node"},
        {"notice": "soon"},
        {"pending-within": "5"},
        {"sbatch": "'"},
        {"time-limit": "banana"},
        {"time-limit": "1-"},
        {"time-limit": "-5"},
    ],
)
def test_malformed_texts_are_refused(texts: dict[str, str]) -> None:
    (name,) = texts
    with pytest.raises(InputError, match=f"^{name}: "):
        keywords(texts)


@pytest.mark.parametrize("text", ["5", "5:30", "1:00:00", "2-12", "2-12:30:00", "UNLIMITED"])
def test_times_as_slurm_takes_them(text: str) -> None:
    assert keywords({"time-limit": text}) == {"time_limit": text}
