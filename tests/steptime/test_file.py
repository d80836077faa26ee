from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.steptime.clusters import random_model, seeds

from staves.errors import InputError
from staves.steptime import parse_model, read_model, to_document


def document() -> dict[str, Any]:
    return {
        "devices": [
            {
                "name": "a100-0",
                "type": "a100",
                "forward": {"fixed": 0.010, "per_sample": 0.00020},
                "backward": {"fixed": 0.012, "per_sample": 0.00045, "floor_seconds": 0.02},
                "min_batch": 0,
                "max_batch": 512,
                "idle": 0,
            }
        ],
        "communication": {"ready": [0.15, 0.6, 1.0], "seconds": [0.020, 0.020, 0.004]},
    }


def changed(path: tuple[Any, ...], value: Any) -> str:
    tree = document()
    place: Any = tree
    for step in path[:-1]:
        place = place[step]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(tree)


@given(seeds)
def test_what_is_written_is_read(seed: int) -> None:
    model = random_model(np.random.default_rng(seed), 4, idle=True)
    assert parse_model(json.dumps(to_document(model)), source="x") == model


def test_is_json_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "model"  # 1e-05, as json writes it, is text in YAML
    path.write_text(changed(("devices", 0, "forward", "fixed"), 1e-05))
    assert read_model(path).devices[0].forward.fixed == 1e-05
    path.write_text("devices: []")
    with pytest.raises(InputError, match="not JSON"):
        read_model(path)


DEVICE = ("devices", 0)
TWICE = [document()["devices"][0]] * 2
MALFORMED: list[tuple[tuple[Any, ...], Any, str]] = [
    (("device",), [], "unknown key"),
    ((*DEVICE, "batch"), 3, "unknown key"),
    ((*DEVICE, "forward", "floor"), 0.1, "forward.floor: unknown key"),
    (("communication", "share"), 1, "unknown key"),
    (("communication",), KeyError, "missing"),
    (("devices",), KeyError, "missing"),
    ((*DEVICE, "forward", "per_sample"), KeyError, "missing"),
    ((*DEVICE, "name"), KeyError, "missing"),
    (("devices",), [], "empty"),
    (("devices",), {}, "devices"),
    (("devices",), TWICE, "two devices are named 'a100-0'"),
    ((*DEVICE, "forward", "fixed"), -0.1, "forward.fixed"),
    ((*DEVICE, "forward", "fixed"), float("nan"), "forward.fixed"),
    ((*DEVICE, "forward", "fixed"), float("inf"), "forward.fixed"),
    ((*DEVICE, "forward", "fixed"), "0.1", "forward.fixed"),
    ((*DEVICE, "forward", "fixed"), True, "forward.fixed"),
    ((*DEVICE, "forward", "fixed"), None, "forward.fixed"),
    ((*DEVICE, "forward", "fixed"), 10**400, "forward.fixed"),
    ((*DEVICE, "forward", "fixed"), 1e308, "devices[0].forward.fixed: must be at most 1e+18, not"),
    ((*DEVICE, "backward", "per_sample"), 1e308, "devices[0].backward.per_sample: must be at most"),
    ((*DEVICE, "idle"), 1e308, "devices[0].idle: must be at most 1e+18, not 1e+308 (lower it)"),
    (("communication", "seconds"), [0, 0, 1e308], "communication.seconds[2]: must be at most"),
    ((*DEVICE, "backward", "floor_seconds"), -1, "floor_seconds"),
    ((*DEVICE, "idle"), -1, "idle"),
    ((*DEVICE, "min_batch"), -1, "min_batch"),
    ((*DEVICE, "min_batch"), 1.5, "min_batch"),
    ((*DEVICE, "max_batch"), 1e400, "max_batch"),
    ((*DEVICE, "max_batch"), 10**30, "max_batch"),
    ((*DEVICE, "min_batch"), 513, "min_batch 513 is above max_batch 512"),
    (("communication", "ready"), [0.6, 0.15, 1.0], "not sorted"),
    (("communication", "ready"), [0.15, 0.6, 0.9], "ends in 0.9"),
    (("communication", "ready"), [0.15, 0.6, 1.5], "ready[2] must be from 0 to 1, but is 1.5"),
    (("communication", "ready"), [-0.1, 0.6, 1.0], "ready"),
    (("communication", "ready"), [0.6, 1.0], "ready has 2 buckets, but seconds has 3"),
    (("communication", "seconds"), [0.1, 0.1, -0.1], "seconds"),
    (("communication", "seconds"), [0.1, 0.1, float("nan")], "seconds"),
    (("communication",), {"ready": [], "seconds": []}, "ready is empty"),
]


@pytest.mark.parametrize(("path", "value", "match"), MALFORMED)
def test_malformed_files_fail_in_one_line(path: tuple[Any, ...], value: Any, match: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_model(changed(path, value), source="model.json")
    line = str(caught.value)
    assert line.startswith("model.json: ")
    assert match in line
    assert "\n" not in line


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "null", '{"devices": 1, "devices": 2}'])
def test_what_is_no_document_fails_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_model(text, source="model.json")
    assert "\n" not in str(caught.value)
