"""The support table says what there is: each row has a verdict and a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.training.launch import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "support.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| feature"))
]


def names_of(path: str) -> set[str]:
    """Return the names of a file's tests."""
    tree = ast.parse((ROOT / path).read_text())
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {name for name in functions if name.startswith("test_")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_each_row_names_a_test_that_exists(row: list[str]) -> None:
    _feature, verdict, _how, test = row
    assert verdict in ("works", "warns", "refused")
    named = re.fullmatch(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", test)
    assert named is not None, test
    path, function = named.groups()
    assert function is None or function in names_of(path)
    assert names_of(path)


PROMISED = """
find_unused_parameters static_graph torch.compile models optimizers closures EMA BatchNorm iterable
persistent DistributedSampler batch_sampler reduction fp16 bf16 clipping token accumulation groups
FSDP workers
"""


def test_what_was_promised_is_in_the_table() -> None:
    features = " ".join(row[0] for row in ROWS)
    assert [word for word in PROMISED.split() if word not in features] == []
