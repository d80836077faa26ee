"""What people see while the demo runs: who has which device, second by second, and how jobs do.

All that draws is a pure function of data. Without a terminal there is a line for each change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TypedDict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

SPAN = 60
"""Seconds that the strip shows at most; one column is one second."""

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
_IDLE = "·"


class Job(TypedDict):
    """One job at one moment.

    `state` is that of `staves ps`; `devices` are names like `fast/a100-0`, in the order of
    `local_batches`; `progress` is 0 to 1; None stands for what is not known.
    """

    name: str
    state: str
    devices: list[str]
    progress: float | None
    samples_per_second: float | None
    local_batches: list[int]
    loss: float | None
    eta_seconds: float | None


Holders = Mapping[str, str]
"""Which job has a device, by the device's name; a free device is absent."""


def holders(jobs: Sequence[Job]) -> Holders:
    """Return which job has which device."""
    return {device: job["name"] for job in jobs for device in job["devices"]}


def by_type(devices: Sequence[str]) -> str:
    """Say how many devices of which type those are, as a configuration: `2xa100+1xt4`."""
    types = [device.rpartition("/")[2].rpartition("-")[0] for device in devices]
    return "+".join(f"{types.count(name)}x{name}" for name in dict.fromkeys(types))


def marks(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Give each job a letter, of its own where its name has one to spare, and a style."""
    found: dict[str, tuple[str, str]] = {}
    for place, name in enumerate(names):
        taken = {letter for letter, _ in found.values()}
        letter = next((each for each in name if each.isalnum() and each not in taken), name[0])
        found[name] = (letter, f"black on {_COLOURS[place % len(_COLOURS)]}")
    return found


def strip(
    history: Sequence[tuple[float, Holders]],
    devices: Sequence[str],
    styles: Mapping[str, tuple[str, str]],
    *,
    now: float,
    width: int,
) -> Text:
    """Draw a row a device and a column a second, the newest on the right.

    Args:
        history: (seconds, who has what from then on), in order of time.
        devices: all of the cluster, by name.
        styles: `marks` of all jobs that occur.
        now: seconds; the right edge.
        width: characters in all.
    """
    label = max(map(len, devices))
    columns = max(1, min(SPAN, width - label - 1))
    moments = [now - (columns - 1 - column) for column in range(columns)]
    at = [_holders_at(history, moment) for moment in moments]
    drawn = Text(no_wrap=True)
    for device in devices:
        drawn.append(f"{device:<{label}} ")
        for held in at:
            if held is None:  # before the beginning
                drawn.append(" ")
            elif device in held:
                drawn.append(*styles[held[device]])
            else:
                drawn.append(_IDLE, "dim")
        drawn.append("\n")
    ago = f"{columns - 1} s ago" if columns > 16 else ""
    drawn.append(f"{'':<{label}} {ago}{'now':>{columns - len(ago)}}", "dim")
    return drawn


def _holders_at(history: Sequence[tuple[float, Holders]], moment: float) -> Holders | None:
    return next((held for since, held in reversed(history) if since <= moment), None)


def table(jobs: Sequence[Job], styles: Mapping[str, tuple[str, str]], *, width: int) -> Table:
    """Draw a row a job; wide terminals get a bar of progress as well.

    `split` is the samples of each batch by device, in the order of the job's ranks.
    """
    wide = width >= 100
    drawn = Table(box=None, padding=(0, 2 if wide else 1, 0, 0), header_style="dim")
    drawn.add_column("")
    for column in ("job", "state", "devices"):
        drawn.add_column(column, no_wrap=True)
    for column in ("done", "samples/s", "loss", "left"):
        drawn.add_column(column, justify="right", no_wrap=True)
    drawn.add_column("split", overflow="fold")
    for job in jobs:
        rate, loss = job["samples_per_second"], job["loss"]
        drawn.add_row(
            Text(*styles[job["name"]]),
            job["name"],
            job["state"],
            by_type(job["devices"]),
            _done(job["progress"], bar=wide),
            "" if rate is None else f"{rate:.0f}",
            "" if loss is None else f"{loss:.3f}",
            _left(job["eta_seconds"]),
            " ".join(map(str, job["local_batches"])),
        )
    return drawn


def _done(progress: float | None, *, bar: bool) -> str:
    if progress is None:
        return ""
    share = f"{progress:.0%}"
    return f"{'━' * int(10 * progress):<10} {share:>4}" if bar else share


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"


def frame(
    history: Sequence[tuple[float, Holders]],
    jobs: Sequence[Job],
    devices: Sequence[str],
    *,
    now: float,
    width: int,
) -> RenderableType:
    """Draw the whole view: the strip of devices above the table of jobs."""
    styles = marks([job["name"] for job in jobs])
    title = Text(f"{now:.0f} s: {len(devices)} EMULATED devices, {len(jobs)} jobs", "bold")
    drawn = strip(history, devices, styles, now=now, width=width)
    return Group(title, Text(), drawn, Text(), table(jobs, styles, width=width))


def changes(before: Sequence[Job], after: Sequence[Job], *, now: float) -> list[str]:
    """Return a line for each job that came, or has another state or other devices than before."""
    known = {job["name"]: (job["state"], job["devices"]) for job in before}
    lines = []
    for job in after:
        state, devices = job["state"], job["devices"]
        if known.get(job["name"]) == (state, devices):
            continue
        short = ", ".join(device.rpartition("/")[2] for device in devices)
        lines.append(f"{now:5.1f} s  {job['name']}: {state}" + (f" on {short}" if short else ""))
    return lines


class DemoView:
    """Shows the demo while it runs: live on a terminal, line by line elsewhere.

    Args:
        devices: names of all the cluster's devices.
        console: where to; standard output.
    """

    def __init__(self, devices: Sequence[str], console: Console | None = None) -> None:
        self._devices = list(devices)
        self._console = console or Console(highlight=False)
        self._history: list[tuple[float, Holders]] = []
        self._jobs: list[Job] = []
        self._live: Live | None = None

    def __enter__(self) -> DemoView:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, now: float, jobs: Sequence[Job]) -> None:
        """Take in how things stand `now` seconds after the start.

        `jobs` are all that have been submitted, those that have ended included.
        """
        held = holders(jobs)
        if not self._history or held != self._history[-1][1]:
            self._history.append((now, held))
        if self._live is None:
            for line in changes(self._jobs, jobs, now=now):
                self._console.print(line, markup=False, soft_wrap=True)
        else:
            width = self._console.width
            drawn = frame(self._history, jobs, self._devices, now=now, width=width)
            self._live.update(drawn, refresh=True)
        self._jobs = [*jobs]
