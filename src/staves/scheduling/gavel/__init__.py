"""Gavel: shares of time by a linear programme, and rounds that follow them (OSDI '20)."""

from staves.scheduling.gavel._policy import Gavel, GavelFtf, GavelMakespan, GavelMaxMin

__all__ = ["Gavel", "GavelFtf", "GavelMakespan", "GavelMaxMin"]
