from __future__ import annotations

from staves.scheduling import (
    Fifo,
    Gavel,
    GavelFtf,
    GavelMakespan,
    GavelMaxMin,
    Heet,
    Policy,
    Sia,
    Srtf,
    Tiresias,
)
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


class TestTiresias(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Tiresias()


class TestGavel(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Gavel()


class TestGavelMaxMin(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return GavelMaxMin()


class TestGavelMakespan(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return GavelMakespan()


class TestGavelFtf(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return GavelFtf()


class TestSia(PolicyConformance):
    work_conserving = False  # one type a job, of few sizes

    def policy(self) -> Policy:
        return Sia()
