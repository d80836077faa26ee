"""Virtual time against paced processes: `python -m benchmarks.training.against_paced`.

Three emulated devices at speeds 1 : 0.45 : 0.2 train a small MLP with dropout: real processes, real
collectives, declared durations. Each such run is then repeated in virtual time: its own splits
replayed (the losses must be those of the ranks, and the steps as long), and, where splits were
learned, once more by a learner that sees virtual measurements only.

The link between emulated devices is the machine's own, so its times are not declared: those of a
calibration run stand for all others. Its own figures are left out.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.launch import staves_run
from benchmarks.learning import _declared
from benchmarks.scripts import virtual_job
from benchmarks.training import checks
from staves.hardware import read_cluster
from staves.steptime import Communication, StepTimeModel
from staves.training import (
    Decision,
    Learner,
    Situation,
    StepRecord,
    System,
    VirtualJob,
    VirtualStep,
    VirtualTrainer,
    VirtualTruth,
)

HERE = Path(__file__).parent.parent
MIX = HERE / "learning_mixes" / "three_speeds.yaml"
BATCH, STEPS = 128, 60
TRIED = ((43, 43, 42), (64, 46, 18), (78, 35, 15))
"""Even, in between and near the best: steps of 0.66, 0.32 and 0.27 s."""
ADAPTIVE, ADAPTIVE_SAMPLES = "24-384", 6144
ROUNDS = 3
"""Runs of the splits in turn."""
LEAST_BLOCK = 5
"""Steps of one split in a row, below which they tell no median; the first of them is left out."""

Split = tuple[int, ...]


@dataclass(frozen=True)
class Paced:
    """One run of real processes.

    Attributes:
        total: the batch, as `virtual_job` takes it.
        samples: of its data.
        splits, seconds, losses: of each step; nan seconds for the first.
        predicted: the plan's step seconds by then.
        missed: the share of steps with a missed deadline; `void` where they are too many.
        load: the machine's when it began.
    """

    total: str
    samples: int
    splits: list[Split]
    seconds: list[float]
    losses: list[float]
    predicted: list[float | None]
    communication: Communication | None
    missed: float
    void: bool
    load: float


class Replay(System):
    """The splits of a run that has been made."""

    def __init__(self, splits: Sequence[Split]) -> None:
        self._splits = splits

    def begin(self, job: VirtualJob) -> None:
        """All is known."""

    def decide(self, situation: Situation) -> Decision:
        return Decision(self._splits[situation.step])

    def measured(self, records: Sequence[StepRecord]) -> None:
        """Nothing is learned."""


def measure(rounds: int = ROUNDS) -> checks.Document:
    """Return the figures of all runs."""
    checks.progress("paced: the link, as a learner measures it")
    calibration = paced(str(BATCH), BATCH * STEPS)
    assert calibration.communication is not None
    model = _declared(read_cluster(MIX), calibration.communication)
    block = STEPS // len(TRIED) // 2
    turns = [split for split in (*TRIED, *TRIED) for _ in range(block)]
    runs = []
    for number in range(rounds):
        checks.progress(f"paced: splits in turn, {number + 1} of {rounds}")
        runs.append(paced(str(BATCH), BATCH * len(turns), splits=turns))
    checks.progress("paced: learned splits")
    learned = paced(str(BATCH), BATCH * STEPS)
    checks.progress("paced: an adaptive batch")
    adaptive = paced(ADAPTIVE, ADAPTIVE_SAMPLES)
    checks.progress("the same in virtual time")
    return {"emulated": True, "communication": asdict(model.communication)} | {
        "splits": [beside(run, model) for run in runs],
        "learned": {**beside(learned, model), "learner": learners(learned, model)},
        "adaptive": {**beside(adaptive, model), "learner": learners(adaptive, model)},
    }


def paced(total: str, samples: int, *, splits: Sequence[Split] | None = None) -> Paced:
    """Train with real processes; again, twice at most, where too many deadlines were missed."""
    for _ in range(3):
        run = _paced(total, samples, splits)
        if not run.void:
            break
    return run


def _paced(total: str, samples: int, splits: Sequence[Split] | None) -> Paced:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        wanted = [] if splits is None else ["--splits", json.dumps(splits)]
        figures = staves_run(
            *(HERE / "scripts" / "virtual_job.py", MIX, "--output", folder),
            *("--total", total, "--samples", str(samples), *wanted),
        )
        parts = sorted(Path(folder).glob("*.json"), key=lambda part: int(part.stem))
        stories = [json.loads(part.read_text()) for part in parts]
    rows = [story["rows"] for story in stories]
    stamps = [row[0] for row in rows[0]]
    losses = [
        sum(row[3] * row[4] for row in step) / sum(row[3] for row in step)
        for step in zip(*rows, strict=True)
    ]
    link = stories[0]["communication"]
    deadlines = figures["deadlines"]
    return Paced(
        total,
        samples,
        [tuple(row[1]) for row in rows[0]],
        [float("nan"), *(b - a for a, b in itertools.pairwise(stamps))],
        losses,
        [row[2] for row in rows[0]],
        None if link is None else Communication(tuple(link["ready"]), tuple(link["seconds"])),
        deadlines["missed"] / max(1, deadlines["device_steps"]),
        figures["void"],
        load,
    )


def virtual(run: Paced, model: StepTimeModel, system: System) -> Iterator[VirtualStep]:
    """Train the same in virtual time."""
    network = virtual_job.network()
    trainer = VirtualTrainer(
        *(network, virtual_job.optimizer_of(network), virtual_job.loss_of),
        *(virtual_job.data(run.samples), VirtualTruth(model)),
        batch=virtual_job.batch_of(run.total),
        system=system,
        drop_last=True,
    )
    return trainer.steps(len(run.splits))


def beside(run: Paced, model: StepTimeModel) -> dict[str, Any]:
    """Return how the run's splits, replayed, compare with it."""
    steps = list(virtual(run, model, Replay(run.splits)))
    blocks: dict[Split, dict[str, list[float]]] = {}
    for split, own in itertools.groupby(zip(run.splits, run.seconds, steps, strict=True), _first):
        rows = list(own)[1:]
        if len(rows) >= LEAST_BLOCK:
            block = blocks.setdefault(split, {"paced": [], "virtual": []})
            block["paced"] += [seconds for _, seconds, _ in rows]
            block["virtual"] += [step.seconds for _, _, step in rows]
    medians = []
    for split, block in blocks.items():
        sides = {side: statistics.median(own) for side, own in block.items()}
        ratio = sides["virtual"] / sides["paced"]
        row = {"local_batches": split, "steps": len(block["paced"]), **sides}
        medians.append({**row, "virtual_over_paced": ratio})
    losses = [step.loss for step in steps]
    return {
        "load": run.load,
        "missed_deadlines": run.missed,
        "void": run.void,
        "steps": len(steps),
        "seconds": {"paced": sum(run.seconds[1:]), "virtual": sum(s.seconds for s in steps[1:])},
        "medians": medians,
        "loss": {
            "first": run.losses[0],
            "last": run.losses[-1],
            "largest_difference": max(abs(a - b) for a, b in zip(run.losses, losses, strict=True)),
        },
    }


def learners(run: Paced, model: StepTimeModel) -> dict[str, Any]:
    """Return what a learner on virtual measurements decides, beside the run's own."""
    learner = Learner(declared=True)
    steps = list(virtual(run, model, learner))
    sides = {
        "paced": (run.splits, run.predicted, sum(run.seconds[1:])),
        "virtual": (
            [step.local_batches for step in steps],
            [_predicted(learner, step.number) for step in steps],
            steps[-1].clock - steps[0].clock,
        ),
    }
    return {
        side: {
            "changes": _changes(splits),
            "last_split": splits[-1],
            "predicted_step_seconds": predicted[-1],
            "declared_step_seconds": model.step_seconds(splits[-1]),
            "seconds": seconds,
            "steps": len(splits),
        }
        for side, (splits, predicted, seconds) in sides.items()
    }


def _predicted(learner: Learner, step: int) -> float | None:
    return [plan for since, plan in learner.plans if since <= step][-1].predicted_seconds


def _changes(splits: Sequence[Split]) -> list[dict[str, Any]]:
    """Return each split with the step from which on it holds."""
    return [
        {"step": step, "batch": sum(split), "local_batches": split}
        for step, split in enumerate(splits)
        if step == 0 or split != splits[step - 1]
    ]


def _first(row: tuple[Split, float, VirtualStep]) -> Split:
    return row[0]


def told(document: checks.Document) -> list[str]:
    """Return lines for people."""
    lines = []
    runs = [*(("splits", run) for run in document["splits"])]
    runs += [(name, document[name]) for name in ("learned", "adaptive")]
    for name, run in runs:
        lines.append(
            f"{name}: {run['steps']} steps, load {run['load']:.1f}, deadlines missed"
            f" {100 * run['missed_deadlines']:.1f} %; losses differ by"
            f" {run['loss']['largest_difference']:.1e} at most"
        )
        for row in run["medians"]:
            lines.append(
                f"  {row['local_batches']}: paced {1e3 * row['paced']:.1f} ms, virtual"
                f" {1e3 * row['virtual']:.1f} ms, ratio {row['virtual_over_paced']:.4f}"
            )
        for side, own in run.get("learner", {}).items():
            predicted = own["predicted_step_seconds"]
            lines.append(
                f"  {side} learner: {own['last_split']} after {len(own['changes']) - 1} changes,"
                f" predicts {1e3 * (predicted or 0.0):.1f} ms, declared"
                f" {1e3 * own['declared_step_seconds']:.1f} ms; {own['steps']} steps in"
                f" {own['seconds']:.2f} s"
            )
    return lines


if __name__ == "__main__":
    checks.run("against_paced", __doc__, measure, told)
