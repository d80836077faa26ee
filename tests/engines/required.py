"""What tests of an engine do where its programs are not installed."""

from __future__ import annotations

import os

import pytest


def needed(what: str, there: bool) -> None:
    """Skip, with the reason, where `what` is not there; fail where the engines are required.

    Args:
        what: for people: `Slurm (slurmctld, slurmd, munged)`.
        there: whether it is.
    """
    if there:
        return
    if os.environ.get("STAVES_REQUIRE_ENGINES") == "1":
        pytest.fail(f"{what}: not installed, and STAVES_REQUIRE_ENGINES=1 requires it")
    pytest.skip(f"{what}: not installed")
