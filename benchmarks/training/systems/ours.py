"""Staves itself; the learner of real jobs, at a fixed batch or an adaptive one."""

from __future__ import annotations

from staves.training import Learner as Ours

__all__ = ["Ours"]
