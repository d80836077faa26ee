from __future__ import annotations

from staves.scheduling import (
    Afs,
    Allox,
    ElasticFlow,
    Fifo,
    Gavel,
    GavelFtf,
    GavelMakespan,
    GavelMaxMin,
    Heet,
    HeetPaper,
    Lyra,
    Optimus,
    Policy,
    Pollux,
    PolluxGenetic,
    Shockwave,
    Sia,
    Srtf,
    Themis,
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


class TestShockwave(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Shockwave()


class TestAfs(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Afs()


class TestOptimus(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Optimus()


class TestThemis(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Themis()


class TestPollux(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Pollux()


class TestPolluxGenetic(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return PolluxGenetic(population=10, generations=5)


class TestElasticFlow(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return ElasticFlow()


class TestLyra(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Lyra()


class TestAllox(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return Allox()


class TestHeetPaper(PolicyConformance):
    work_conserving = False  # one type a job

    def policy(self) -> Policy:
        return HeetPaper()
