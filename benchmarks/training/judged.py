"""What the benchmark is to show, beside what it shows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.training.declared import BALANCED_BATCHES, CORE_MIXES
from benchmarks.training.report import OURS, RIVALS, Row

LEAST_OF_BOUND = 0.95
MOST_REGRET, MOST_REGRET_AFTER = 0.10, 0.03
LESS_THAN_DDP, BEST_THAN_DDP = 0.60, 0.85
LESS_THAN_ADAPTDL, BEST_THAN_ADAPTDL, BEST_CONTENDED = 0.20, 0.40, 0.50


def judge(rows: Sequence[Row]) -> list[Row]:
    """Return one verdict after the other: what, the figure, what is wanted, whether it holds (None:
    nothing was run that tells)."""
    return [*_balance(rows), *_adaptive(rows), *_time(rows)]


def of_bound(row: Row, batch: str, name: str = "ours", part: str = "second_half") -> float:
    """Return the share of T_even / T_opt at a batch that a system attains."""
    return float(row["balance"][batch][name][part] / row["bounds"][int(batch)])


def _balance(rows: Sequence[Row]) -> list[Row]:
    verdicts = []
    for times in BALANCED_BATCHES:
        what = "at B0" if times == 1 else f"at {times} B0"
        shares = [of_bound(row, str(times * row["reference"])) for row in rows]
        verdicts.append(
            _verdict(
                f"fixed batch {what}: least share of T_even / T_opt, second half",
                min(shares, default=None),
                f">= {LEAST_OF_BOUND:.0%}",
                lambda value: value >= LEAST_OF_BOUND,
            )
        )
    return verdicts


def _adaptive(rows: Sequence[Row]) -> list[Row]:
    verdicts = []
    for part, what, most in (
        ("regret", "whole run", MOST_REGRET),
        ("regret_after_ramp", "after the ramp", MOST_REGRET_AFTER),
    ):
        regrets = [
            row["systems"][OURS][part]["median"] for row in rows if row["systems"][OURS][part]
        ]
        for which, of in (("median over cells", statistics.median), ("worst cell", max)):
            verdicts.append(
                _verdict(
                    f"goodput regret, {what}: {which}",
                    of(regrets) if regrets else None,
                    f"<= {most:.0%}",
                    lambda value, most=most: value <= most,
                )
            )
    for rival in RIVALS:
        slower = [row for row in rows if row["slower_beyond_noise"][rival]]
        names = ", ".join(f"{row['workload']} on {row['mix']}" for row in slower)
        told = [row["slower_beyond_noise"][rival] for row in rows]
        verdicts.append(
            {
                "what": f"cells where ours is slower than {rival} beyond noise",
                "value": names or "none",
                "wanted": "none",
                "held": None if None in told else not slower,
            }
        )
    missed = [
        f"{name} in {row['workload']} on {row['mix']} ({of['reached']} of {row['seeds']})"
        for row in rows
        for name, of in row["systems"].items()
        if of["reached"] < row["seeds"]
    ]
    verdicts.append(
        {
            "what": "targets not reached",
            "value": "; ".join(missed) or "none",
            "wanted": "none",
            "held": not missed,
        }
    )
    return verdicts


def _time(rows: Sequence[Row]) -> list[Row]:
    ddp = [_less(row, f"ddp at {row['reference']}") for row in rows]
    core = [row for row in rows if row["mix"] in CORE_MIXES]
    adaptdl = [_less(row, "adaptdl-like") for row in core]
    contended = [_less(row, "adaptdl-like") for row in rows if row["mix"] == "contended"]
    median, best = statistics.median, max
    return [
        _verdict("less time than DDP at B0: median of cells", *_of(ddp, median, LESS_THAN_DDP)),
        _verdict(
            "less time than DDP at B0: median of the core mixes' cells",
            *_of([_less(row, f"ddp at {row['reference']}") for row in core], median, LESS_THAN_DDP),
        ),
        _verdict("less time than DDP at B0: best cell", *_of(ddp, best, BEST_THAN_DDP)),
        _verdict(
            "less time than AdaptDL-like: median of cells",
            *_of(adaptdl + contended, median, LESS_THAN_ADAPTDL),
        ),
        _verdict(
            "less time than AdaptDL-like: median of the core mixes' cells",
            *_of(adaptdl, median, LESS_THAN_ADAPTDL),
        ),
        _verdict(
            "less time than AdaptDL-like: best cell of mixes (i) and (ii)",
            *_of(adaptdl, best, BEST_THAN_ADAPTDL),
        ),
        _verdict(
            "less time than AdaptDL-like: best cell of mix (iii)",
            *_of(contended, best, BEST_CONTENDED),
        ),
    ]


def _less(row: Row, rival: str) -> float | None:
    found = row["less_time"].get(rival)
    return None if found is None else found["median"]


def _of(values: Sequence[float | None], how: Any, least: float) -> tuple[Any, str, Any]:
    value = how([-math.inf if value is None else value for value in values]) if values else None
    known = value is not None and math.isfinite(value)
    return value if known else None, f">= {least:.0%}", lambda found: found >= least


def _verdict(what: str, value: float | None, wanted: str, holds: Any) -> Row:
    held = None if value is None else bool(holds(value))
    return {"what": what, "value": value, "wanted": wanted, "held": held}
