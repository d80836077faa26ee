"""What the commands of the service share: their client, the names of jobs, and plain tables."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from staves.cli._output import messages, output
from staves.engines.local import staves_home
from staves.errors import StavesError, printable
from staves.hardware import Configuration

if TYPE_CHECKING:
    from staves.service import Client

_WIDE = 200  # columns, where nobody's terminal sets them: a program reads the table


@contextlib.contextmanager
def service_packages() -> Iterator[None]:
    """Say what to install where the packages of the service are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("staves"):
            raise
        raise StavesError(
            f"the service needs the package {error.name}", hint="pip install 'staves[service]'"
        ) from None


def client(*, patience: float = 8.0, timeout: float = 30.0) -> Client:
    """Return a client of the service that the environment names, or that of STAVES_HOME.

    Args:
        patience, timeout: seconds, as `Client` has them.
    """
    with service_packages():  # what is heavy loads only for who needs it
        from staves.service import Client
    return Client(staves_home(), patience=patience, timeout=timeout, waiting=_say_waiting)


def _say_waiting(what: str) -> None:
    messages.print(f"staves: {what}: waiting for it")


def complete_jobs(incomplete: str) -> list[str]:
    """Return names for the shell's completion; none, without a word, where no service answers."""
    return _complete(incomplete, lambda service: (job["name"] for job in service.jobs()))


def complete_nodes(incomplete: str) -> list[str]:
    """Return names of nodes, as `complete_jobs`."""
    return _complete(incomplete, lambda service: (node["name"] for node in service.nodes()))


def _complete(incomplete: str, names: Any) -> list[str]:
    try:
        with client(patience=0.0, timeout=1.0) as service:
            found: Iterable[str] = list(names(service))
    except StavesError:
        return []
    return sorted({name for name in found if name.startswith(incomplete)})


Job = Annotated[
    str,
    typer.Argument(help="A job: its id or its name.", metavar="JOB", autocompletion=complete_jobs),
]
Node = Annotated[
    str, typer.Argument(help="A node's name.", metavar="NODE", autocompletion=complete_nodes)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, one_line: bool = False
) -> Table:
    """Return a plain table: what a script cuts apart as easily as people read it.

    Where it is too wide, the last column gives way: in several lines, or cut with `one_line`.
    """
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns, 1):
        shown.add_column(column, no_wrap=number < len(columns))
    for row in rows:
        *first, last = (cell(value) for value in row)
        cut = Text(last, no_wrap=True, overflow="ellipsis") if one_line else Text(last)
        shown.add_row(*first, cut)
    return shown


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, one_line: bool = False
) -> None:
    """Print a table on standard output; see `table`."""
    console = output()
    if not console.is_terminal:  # a width given to `print` is cut to the console's own
        console.width = max(console.width, _WIDE)
    console.print(table(columns, rows, one_line=one_line))


def cell(value: object) -> str:
    """Return a value as one cell shows it."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ",".join(printable(str(item)) for item in value)
    return printable(str(value))


def configuration(devices: Iterable[str]) -> str:
    """Return devices by their types, `2xa100+1xt4`, from names such as `node-0/a100-0`."""
    return str(Configuration(Counter(d.partition("/")[2].rpartition("-")[0] for d in devices)))


def epoch(job: dict[str, Any]) -> int | None:
    """Return the epoch that a job is in, from 1 as `run` counts; None where it trains none."""
    passed: int | None = (job["progress"] or {}).get("epoch")
    if passed is None:
        return None
    return max(1, passed) if job["state"] == "finished" else passed + 1


def milliseconds(seconds: float | dict[str, float] | None) -> str | None:
    """Return a short time, or the median of several; None where there is none."""
    if isinstance(seconds, dict):
        seconds = seconds.get("p50")
    if seconds is None:
        return None
    # 999.6 ms would be 1e+03 ms
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{seconds * 1e3:.3g} ms"


def ago(since: float | None) -> str:
    """Return how long ago a moment (Unix seconds) was, in its largest unit."""
    return "-" if since is None else lasting(time.time() - since)


def lasting(seconds: float) -> str:
    """Return a duration in its largest unit."""
    seconds = max(seconds, 0.0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
