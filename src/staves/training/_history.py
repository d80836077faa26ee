"""What a report needs of a run: its splits, step times and noise scale over the steps.

Memory is bounded: a row covers one step at first, and twice as many each time the rows are full.
Every rank keeps a history, since any of them may be rank 0 next; a row costs some microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

MOST_ROWS = 512


@dataclass(frozen=True, slots=True)
class Setting:
    """How steps were split.

    Args:
        devices: names, one for each rank.
        local_batches: samples, one for each rank.
        stage: of the plan: even, spread, optimal or fixed.
        predicted_seconds, even_seconds: the model's step times of this split and of the even one.
        idle_share: of the step, by rank, as the model has it; None before there is one.
    """

    devices: tuple[str, ...]
    local_batches: tuple[int, ...]
    stage: str
    predicted_seconds: float | None = None
    even_seconds: float | None = None
    idle_share: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A few steps in a row.

    Args:
        step: number of the last of them, from 0.
        steps: how many they are.
        setting: in force for most of them.
        measured: how many of them count for `step_seconds`; the first after a change does not.
        step_seconds: mean step time; None where none counts.
        noise_scale: in samples, as it stood at the last step; None where it is not known.
        goodput: effective samples a second, mean over the steps that count; None where unknown.
    """

    step: int
    steps: int
    setting: Setting
    measured: int = 0
    step_seconds: float | None = None
    noise_scale: float | None = None
    goodput: float | None = None


class History:
    """The rows of a run, oldest first.

    Args:
        most: rows that are kept, at least 2.
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.rows: list[Row] = []
        self._most = most
        self._stride = 1  # steps of a row

    def add(self, row: Row) -> None:
        """Take in the next step; one that is trained again takes the place of what it was."""
        rows = self.rows
        while rows and rows[-1].step >= row.step:
            rows.pop()
        last = rows[-1] if rows else None
        if last and last.steps < self._stride and last.setting == row.setting:
            rows[-1] = _joined(last, row)
            return
        rows.append(row)
        if len(rows) > self._most:
            self._stride *= 2
            self.rows = [
                rows[i] if i + 1 == len(rows) else _joined(rows[i], rows[i + 1])
                for i in range(0, len(rows), 2)
            ]

    def to_document(self) -> dict[str, Any]:
        """Return plain values: `settings`, and `rows` that name theirs by its place there."""
        settings: dict[Setting, int] = {}
        rows = []
        for row in self.rows:
            place = settings.setdefault(row.setting, len(settings))
            rows.append(
                {
                    "step": row.step,
                    "steps": row.steps,
                    "setting": place,
                    "measured": row.measured,
                    "step_seconds": row.step_seconds,
                    "noise_scale": row.noise_scale,
                    "goodput": row.goodput,
                }
            )
        plain = [{name: _plain(v) for name, v in asdict(each).items()} for each in settings]
        return {"settings": plain, "rows": rows, "stride": self._stride}

    @classmethod
    def from_document(cls, document: Mapping[str, Any], most: int = MOST_ROWS) -> History:
        """Return the history that `to_document` wrote."""
        settings = [
            Setting(**{name: _frozen(v) for name, v in each.items()})
            for each in document["settings"]
        ]
        history = cls(most)
        history._stride = document["stride"]
        history.rows = [
            Row(**{**row, "setting": settings[row["setting"]]}) for row in document["rows"]
        ]
        return history


def _joined(first: Row, second: Row) -> Row:
    """Return one row for two; where their settings differ, that of more steps stands for both."""
    steps = first.steps + second.steps
    if first.setting != second.setting:
        longer = first if first.steps > second.steps else second
        return replace(longer, step=second.step, steps=steps)
    measured = first.measured + second.measured
    seconds = None
    if measured:
        times = ((row.step_seconds or 0.0) * row.measured for row in (first, second))
        seconds = sum(times) / measured
    goodput = _mean_goodput(first, second)
    # Spelt out: `replace` takes several times as long, and this is done at every step.
    return Row(
        second.step,
        steps,
        second.setting,
        measured,
        seconds,
        second.noise_scale,
        goodput,
    )


def _mean_goodput(first: Row, second: Row) -> float | None:
    if first.goodput is None or second.goodput is None:
        return first.goodput if second.goodput is None else second.goodput
    steps = first.measured + second.measured
    if not steps:
        return second.goodput
    return (first.goodput * first.measured + second.goodput * second.measured) / steps


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
