"""What past jobs were measured at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from staves.errors import InputError
from staves.estimation.filtering._cells import Cell


@dataclass(frozen=True, slots=True)
class Measured:
    """The throughput of one job on one cell.

    Args:
        log_throughput: mean of ln(throughput) over the rounds, in the job's own unit.
        rounds: how often it was measured.
    """

    log_throughput: float
    rounds: int = 1

    def again(self, throughput: float) -> Measured:
        """Return it with one further round."""
        total = self.log_throughput * self.rounds + _logarithm(throughput)
        return Measured(total / (self.rounds + 1), self.rounds + 1)


Measurements = Mapping[Cell, Measured]


@dataclass(frozen=True)
class History:
    """Measurements by job. Units may differ by job, never within one.

    Args:
        jobs: by name.
    """

    jobs: Mapping[str, Measurements] = field(default_factory=dict)

    @classmethod
    def of(cls, rounds: Iterable[tuple[str, Cell, float]]) -> History:
        """Return the history of rounds: job, cell, and throughput above zero.

        Raises:
            InputError: a throughput is not finite, or not above zero.
        """
        jobs: dict[str, dict[Cell, Measured]] = {}
        for job, cell, throughput in rounds:
            cells = jobs.setdefault(job, {})
            before = cells.get(cell)
            cells[cell] = (
                Measured(_logarithm(throughput)) if before is None else before.again(throughput)
            )
        return cls(jobs)

    def with_round(self, job: str, cell: Cell, throughput: float) -> History:
        """Return the history once a job has run one more round; errors as `of`."""
        cells = self.jobs.get(job, {})
        before = cells.get(cell)
        now = Measured(_logarithm(throughput)) if before is None else before.again(throughput)
        return History({**self.jobs, job: {**cells, cell: now}})

    def without(self, jobs: Iterable[str]) -> History:
        """Return the history without some jobs."""
        left = set(jobs)
        return History({name: cells for name, cells in self.jobs.items() if name not in left})

    def of_job(self, job: str) -> Measurements:
        """Return what a job was measured at; empty where it never ran."""
        return self.jobs.get(job, {})

    @property
    def cells(self) -> frozenset[Cell]:
        """Every cell that some job was measured at."""
        return frozenset(cell for cells in self.jobs.values() for cell in cells)


def _logarithm(throughput: float) -> float:
    if not (math.isfinite(throughput) and throughput > 0):
        raise InputError(
            f"throughput {throughput!r} must be finite and above zero",
            hint="leave out what did not run",
        )
    return math.log(throughput)
