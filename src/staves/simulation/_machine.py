"""Processes that start side by side on the cores of one machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

_NOTHING = 1e-9  # seconds


@dataclass(slots=True)
class Startup:
    """Something that starts: one stage after the other, each of so many processes alike.

    Args:
        stages: processes, and the seconds of a core that each of them takes.
        begun: in seconds.
    """

    stages: list[tuple[int, float]]
    begun: float
    passed: int = 0
    done_at: float | None = None

    def done(self, now: float) -> bool:
        """Whether it has started by then."""
        return self.done_at is not None and self.done_at <= now


class Machine:
    """Cores, and what starts on them: all processes advance alike (processor sharing).

    Args:
        cores: that they share; inf where each has its own.
    """

    def __init__(self, cores: float = math.inf) -> None:
        self._cores = cores
        self._starting: list[Startup] = []
        self._now = -math.inf

    def start(self, stages: list[tuple[int, float]], now: float) -> Startup:
        """Start something now."""
        self.advance(now)
        startup = Startup([(n, seconds) for n, seconds in stages if n], now)
        self._starting.append(startup)
        self.advance(now)
        return startup

    def advance(self, now: float) -> None:
        """Let time pass until `now`."""
        while True:
            for startup in [s for s in self._starting if not s.stages]:
                startup.done_at = max(self._now, startup.begun)
                self._starting.remove(startup)
            shortest = min((s.stages[0][1] for s in self._starting), default=math.inf)
            due = self._now + shortest / self._rate()
            # What is due has worked all of it, however coarse the clock's numbers are.
            worked = shortest if due <= now else (now - self._now) * self._rate()
            for startup in self._starting:
                count, left = startup.stages[0]
                startup.stages[0] = (count, max(0.0, left - worked))
            self._now = max(self._now, min(now, due))
            if due > now or not self._starting:
                return
            for startup in self._starting:
                if startup.stages[0][1] <= _NOTHING:
                    startup.stages.pop(0)
                    startup.passed += 1

    def _rate(self) -> float:
        processes = sum(s.stages[0][0] for s in self._starting)
        return min(1.0, self._cores / processes) if processes else 1.0
