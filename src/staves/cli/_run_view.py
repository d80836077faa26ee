"""What people see of a run: one progress line while it trains, a short table at its end."""

from __future__ import annotations

import codecs
import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column, Table

from staves.cli._expectation import declared_model, expectation, known_model
from staves.cli._knowledge import EarlierRun
from staves.cli._output import messages
from staves.engines.local import EpochLog
from staves.errors import InputError
from staves.hardware import Device

_LINE_EVERY = 5.0  # seconds between progress lines where there is no terminal
_EPOCH_WIDTH, _BAR_WIDTH = 9, 10  # characters of a progress line
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
        self.epochs = EpochLog(self.say)
        self.earlier: Callable[[int], EarlierRun | None] = lambda batch: None
        """Finds an earlier run that started with the same batch, in samples."""
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
                TextColumn(
                    "{task.description}", table_column=Column(no_wrap=True, min_width=_EPOCH_WIDTH)
                ),
                BarColumn(bar_width=_BAR_WIDTH),
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
        self.epochs.close()
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
                self._expect(sum(self._split))
            self.say(message["text"])
        elif kind == "progress":
            self._show_progress(message)
        self.epochs.message(rank, message)

    def _expect(self, batch: int) -> None:
        """Say, once, what to expect of a batch: by an earlier run, or as the devices declare."""
        if self._expected or len(self._devices) < 2 or len(self._split) != len(self._devices):
            return
        self._expected = True
        earlier, model = self.earlier(batch), None
        if earlier is not None:
            # Knowledge that another version has written tells nothing: it is measured again.
            with contextlib.suppress(InputError):
                model = known_model(earlier.knowledge, self._devices)
        source = "declared durations without communication" if model is None else ""
        if earlier is not None and model is not None:
            source = f"run {earlier.run}, of a batch of {batch}"
        model = model or declared_model(self._devices)
        text = None if model is None else expectation(model, batch)
        if text is not None:
            self.say(f"expected, by {source}: {text}")

    def _show_progress(self, progress: dict[str, Any]) -> None:
        total = progress["total_samples"]
        if total and progress["samples"] >= total:  # its end; there is no epoch beyond it
            return
        parts = progress_parts(progress)
        epoch = f"epoch {progress['epoch'] + 1}"
        if self._progress is not None and self._task is not None:
            room = messages.width - max(len(epoch), _EPOCH_WIDTH) - _BAR_WIDTH - 2  # and two gaps
            self._progress.update(
                self._task,
                description=epoch,
                completed=progress["position"] or 0,
                total=progress["length"],
                figures=fitting(parts[1:], room),  # the bar says how far it is
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
            line += f"; even split {_ms(even)} ({figures['even_step_source']})"
        if figures.get("void"):
            line += f"  [{void_note(figures['deadlines'])}]"
        elif even is not None:
            line += f": {even / step['p50']:.2f} x as fast"
        self.say(line)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def void_note(deadlines: dict[str, int]) -> str:
    """Say that figures are void, and why: by the `deadlines` of a run's figures."""
    late, of = deadlines["missed"], deadlines["device_steps"]
    return f"VOID: {late} of {of} emulated device steps were late; the machine is busy"


def fitting(parts: Sequence[str], room: int) -> str:
    """Return the parts, separated by commas, without those that no longer fit in `room`."""
    line = ""
    for part in parts:
        longer = f"{line}, {part}" if line else part
        line = longer if len(longer) <= room else line
    return line


def progress_parts(progress: dict[str, Any]) -> list[str]:
    """Return what a progress line says, by a rank 0's progress message; what is unknown is left
    out. The most wanted comes first: what does not fit on a narrow terminal is dropped."""
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
