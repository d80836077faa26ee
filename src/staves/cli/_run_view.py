"""What people see of a run: one progress line while it trains, a short table at its end."""

from __future__ import annotations

import codecs
import math
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column, Table

from staves.cli._expectation import declared_model, expectation, known_model
from staves.cli._knowledge import EarlierRun
from staves.cli._output import messages
from staves.engines.local import EpochLosses
from staves.errors import InputError
from staves.hardware import Device

_LINE_EVERY = 5.0  # seconds between progress lines where there is no terminal
_MOST_SHOWN = 8  # local batches that fit on a progress line


class RunView:
    """Shows a run's messages on standard error; the script's own output keeps its place.

    Args:
        devices: in rank order.
        json_wanted: the script's standard output goes to standard error then.
    """

    def __init__(self, devices: Sequence[Device], *, json_wanted: bool) -> None:
        self._devices = list(devices)
        self._emulated = any(device.type.emulated for device in devices)
        self._output = sys.stderr if json_wanted else sys.stdout
        # Output comes in pieces, and a piece may end within a character.
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._split: list[int] = []
        self._expected = False
        self._log: dict[str, Any] | None = None
        self.losses = EpochLosses()  # the supervisor's, once there is one
        self._printed = time.monotonic()

    def __enter__(self) -> RunView:
        kinds: dict[str, int] = {}
        for device in self._devices:
            kinds[device.type.name] = kinds.get(device.type.name, 0) + 1
        names = " + ".join(f"{count} {name}" for name, count in kinds.items())
        self.say(
            f"devices: {names}" + (" (EMULATED: declared durations)" if self._emulated else "")
        )
        if messages.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=9)),
                BarColumn(bar_width=10),
                TextColumn("{task.fields[figures]}"),
                console=messages,
                transient=True,
            )
            self._task = self._progress.add_task("starting", total=None, figures="")
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._show_log(whole_only=False)
        if self._progress is not None:
            self._progress.stop()

    def say(self, line: str) -> None:
        """Print a line for people."""
        messages.print(f"staves: {line}", markup=False, soft_wrap=True)

    def warn(self, line: str) -> None:
        """Print a warning."""
        self.say(f"warning: {line}")

    def output(self, is_stderr: bool, data: bytes) -> None:
        """Pass on what the script printed on rank 0."""
        stream = sys.stderr if is_stderr else self._output
        text = self._decoders[is_stderr].decode(data)
        if self._progress is not None:  # above the progress line, which stays last
            self._progress.console.print(text, end="", markup=False, soft_wrap=True)
            return
        stream.write(text)
        stream.flush()

    def message(self, rank: int, message: dict[str, Any]) -> None:
        """Show a worker's message."""
        kind = message["kind"]
        if kind == "say":
            self._split = message.get("local_batches", self._split)
            if message.get("stage") == "even":
                self._expect_as_declared(sum(self._split))
            self.say(message["text"])
        elif kind == "progress":
            self._show_progress(message)
        elif kind == "epoch":
            self._show_log(whole_only=True)
        elif kind == "log":
            self._show_log(whole_only=False)
            self._log = message
            self._show_log(whole_only=True)

    def expect_as(self, earlier: EarlierRun, batch: int | None) -> None:
        """Say what to expect of these devices by what an earlier run has learned of them.

        Args:
            earlier: of the same script.
            batch: the total batch; that of the earlier run where it is not known.
        """
        try:
            model = known_model(earlier.knowledge, self._devices)
        except InputError:  # another version has written it: it is measured again
            return
        samples = batch or earlier.batch
        text = None if model is None else expectation(model, samples)
        if text is not None and len(self._devices) > 1:
            self._expected = True
            self.say(f"expected, by run {earlier.run}, of a batch of {samples}: {text}")

    def _expect_as_declared(self, batch: int) -> None:
        """Say what to expect of emulated devices, once, where nothing better has been said."""
        if self._expected or len(self._split) != len(self._devices):
            return
        self._expected = True
        model = declared_model(self._devices)
        text = None if model is None else expectation(model, batch)
        if text is not None:
            self.say(f"expected, by declared durations without communication: {text}")

    def _show_log(self, *, whole_only: bool) -> None:
        """Print the epoch's line once all ranks have told their loss of it, or it is late."""
        log = self._log
        if log is None or (whole_only and self.losses.told(log["epoch"] - 1) < len(self._split)):
            return
        self._log = None
        epoch = log["epoch"] - 1
        values = {"loss": self.losses.mean(epoch), **log["metrics"]}
        shown = ", ".join(f"{k} {v:.4g}" for k, v in values.items() if v is not None)
        covered = self.losses.covered(epoch)
        if covered is not None and covered < 1 and self.losses.told(epoch):
            shown += f" (loss over {min(covered, 0.999):.1%} of the samples: a rank was lost)"
        self.say(f"epoch {log['epoch']}: {shown}")

    def _show_progress(self, progress: dict[str, Any]) -> None:
        parts = progress_parts(progress)
        epoch = f"epoch {progress['epoch'] + 1}"
        if self._progress is not None and self._task is not None:
            self._progress.update(
                self._task,
                description=epoch,
                completed=progress["position"] or 0,
                total=progress["length"],
                figures=", ".join(parts[1:]),  # the bar says how far it is
            )
        elif progress["step"] and time.monotonic() - self._printed >= _LINE_EVERY:
            self._printed = time.monotonic()
            self.say(f"{epoch}, {', '.join(parts)}")

    def summary(self, figures: dict[str, Any]) -> None:
        """Print the figures of a finished run."""
        if not figures["steps"]:
            return
        label = "EMULATED devices: declared durations" if figures["emulated"] else "measured"
        table = Table(title=f"{figures['steps']} steps, {figures['samples']} samples ({label})")
        for column in ("device", "type", "local batch", "share"):
            table.add_column(column, justify="left" if column in ("device", "type") else "right")
        batch = sum(figures["local_batches"]) or 1
        for device, local in zip(self._devices, figures["local_batches"], strict=False):
            table.add_row(device.name, device.type.name, str(local), f"{local / batch:.1%}")
        messages.print(table)
        step, even = figures["step_seconds"], figures["even_step_seconds"]
        predicted = figures["predicted_step_seconds"]
        if step is None:
            return
        line = f"step {_ms(step['p50'])} (p95 {_ms(step['p95'])})"
        if predicted is not None:
            line += f", predicted {_ms(predicted)}"
        if even is not None:
            source = figures["even_step_source"]
            line += f"; even split {_ms(even)} ({source}): {even / step['p50']:.2f} x as fast"
        if figures.get("void"):
            late, of = figures["deadlines"]["missed"], figures["deadlines"]["device_steps"]
            line += f"  [VOID: {late} of {of} emulated device steps were late; the machine is busy]"
        self.say(line)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def progress_parts(progress: dict[str, Any]) -> list[str]:
    """Return what a progress line says, by a rank 0's progress message; what is unknown is left
    out. The most wanted comes first: a narrow terminal cuts the end."""
    parts = [f"step {progress['step']}"]
    batch, step = progress["batch"], progress["step_seconds"]
    rate = batch / step["p50"] if step else None
    if rate:
        parts.append(f"{rate:,.0f} samples/s")
    if progress["loss"] is not None:
        parts.append(f"loss {progress['loss']:.4f}")
    parts.append(f"batch {batch}")
    split = progress["local_batches"]
    if len(split) > _MOST_SHOWN:
        parts.append(f"split {min(split)} to {max(split)} over {len(split)} devices")
    elif len(split) > 1:
        parts.append("split " + ",".join(str(b) for b in split))
    if progress["noise_scale"] is not None:
        _, upper = progress.get("noise_scale_interval") or (None, math.inf)
        least = ">= " if upper is None else ""  # only the lower end is known
        parts.append(f"noise scale {least}{progress['noise_scale']:,.0f}")
    if rate and progress["total_samples"]:
        left = max(0, progress["total_samples"] - progress["samples"]) / rate
        parts.append(f"{timedelta(seconds=math.ceil(left))} left")
    if step:
        parts.append(f"{_ms(step['p50'])} a step")
    if progress["goodput"] is not None:
        parts.append(f"goodput {progress['goodput']:,.0f}/s")
    return parts
