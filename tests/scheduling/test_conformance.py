from __future__ import annotations

from staves.scheduling import Fifo, Heet, Policy, Srtf
from staves.testing import PolicyConformance


class TestFifo(PolicyConformance):
    work_conserving = False  # the first in the line holds up all others

    def policy(self) -> Policy:
        return Fifo()


class TestSrtf(PolicyConformance):
    def policy(self) -> Policy:
        return Srtf()


class TestHeet(PolicyConformance):
    seeds = range(150)

    def policy(self) -> Policy:
        return Heet()
