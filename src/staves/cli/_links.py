"""`staves links`: measure how fast the nodes of a cluster reach each other, and keep it."""

from __future__ import annotations

import contextlib
import math
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staves.cli._idle_nodes import held_nodes
from staves.cli._output import messages, print_json, warn
from staves.cli._service import AsJson, ago, print_table, service_packages
from staves.cli._up import engine_options
from staves.engines.local import staves_home
from staves.errors import InputError, StavesError
from staves.hardware import Cluster, Device, KeptLink, KeptLinks, Link

if TYPE_CHECKING:
    from staves.engines._base import Engine
    from staves.engines.links import Measurement


def links(
    cluster: Annotated[
        Path | None,
        typer.Option(help="Cluster file, as of `staves up`; that of the service.", metavar="FILE"),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="What starts the ranks; that of the service.", metavar="local|ray|slurm"),
    ] = None,
    engine_option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the engine; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="Measure nothing: show what is known.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the link between every two nodes, for plans and decisions to count on.

    Two ranks all-reduce buffers over each link, disjoint pairs side by side; a service's jobs are
    kept off the nodes meanwhile, and nodes that they use are left out.
    """
    keeper = KeptLinks(staves_home(), warn)
    if kept:
        if cluster is not None or engine is not None or engine_option:
            raise InputError("--kept measures nothing", hint="leave out cluster and engine")
        _show(keeper.read(), [], as_json)
        return
    with service_packages():
        from staves.service import ServiceFolder
    runs = ServiceFolder(staves_home()).state in ("up", "starting")
    built = _engine(cluster, engine, engine_option or [], runs=runs)
    whole = built.cluster()
    if len(whole.nodes) < 2:
        _say_no_link(whole, as_json)
        return
    holding = held_nodes(warn) if runs else contextlib.nullcontext([n.name for n in whole.nodes])
    with _ended_as_by_hand(), holding as free:
        devices = {name: device for name, device in _first(whole).items() if name in free}
        if len(devices) < 2:
            raise StavesError(
                "no two nodes are in use and free of jobs: a link cannot be measured beside them",
                hint="wait, or pause jobs (staves ps); take drained nodes back (staves undrain)",
            )
        found = _measured(built, devices)
    if emulated := sorted(node.name for node in whole.nodes if _is_held_to_links(whole, node.name)):
        warn(f"{', '.join(emulated)}: links of emulated devices are no faster than declared")
    good = {m.nodes: KeptLink(m.link, m.at) for m in found if m.link is not None}
    if good:
        keeper.keep(good)
    _show(good, found, as_json)
    if len(good) < len(found):
        raise StavesError(f"{len(found) - len(good)} of {len(found)} links were not measured")


@contextlib.contextmanager
def _ended_as_by_hand() -> Iterator[None]:
    """Let SIGTERM end what was started and give nodes back, as Ctrl-C does."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _engine(cluster: Path | None, name: str | None, given: list[str], *, runs: bool) -> Engine:
    """Return the engine of the service that runs, or else the one that was asked for."""
    with service_packages():
        from staves.service import ServiceFolder, build_engine
    options = engine_options(given, {})
    if runs:
        if cluster is not None or name is not None or given:
            raise InputError(
                "a service runs: it is its nodes that are measured",
                hint="leave out cluster and engine, or end it: staves down",
            )
        name, options = ServiceFolder(staves_home()).engine() or ("local", {})
    return build_engine(name or "local", staves_home(), cluster, options, keep=False)


def _say_no_link(cluster: Cluster, as_json: bool) -> None:
    name = cluster.nodes[0].name if cluster.nodes else "none"
    messages.print(f"staves: the cluster has one node, {name}: there is no link to measure")
    if as_json:
        print_json({"links": [], "problems": []})


def _first(cluster: Cluster) -> dict[str, Device]:
    """Return the device of each node that stands for it: its first GPU, or else its first."""
    found: dict[str, Device] = {}
    for device in cluster.devices():
        gpu = not device.type.emulated and device.type.name != "local-cpu"
        held = found.get(device.node)
        if held is None or (gpu and (held.type.emulated or held.type.name == "local-cpu")):
            found[device.node] = device
    return found


def _is_held_to_links(cluster: Cluster, name: str) -> bool:
    node = cluster.node(name)
    emulated = any(cluster.types[kind].emulated for kind in node.devices)
    return emulated and node.link_bits_per_second is not None


def _measured(engine: Engine, devices: Mapping[str, Device]) -> list[Measurement]:
    from staves.engines.links import measure_links

    pairs, done = math.comb(len(devices), 2), 0
    messages.print(f"staves: {pairs} links of {len(devices)} nodes, {len(devices) // 2} at a time")

    def told(measurement: Measurement) -> None:
        nonlocal done
        done += 1
        what = measurement.problem if measurement.link is None else _speed(measurement.link)
        messages.print(f"staves: {done}/{pairs} {' - '.join(measurement.nodes)}: {what}")

    def waits(nodes: tuple[str, str], reason: str) -> None:
        messages.print(f"staves: {' - '.join(nodes)} waits: {reason}")

    with _folder() as folder:
        found = measure_links(engine, devices, folder=folder, told=told, waits=waits)
    for measurement in found:
        if measurement.link is not None:  # what failed keeps its logs
            shutil.rmtree(staves_home() / "jobs" / measurement.job, ignore_errors=True)
    return found


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Have a folder in STAVES_HOME, which all nodes have."""
    home = staves_home()
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="links-", dir=home) as name:
        yield Path(name)


def _show(
    good: Mapping[tuple[str, str], KeptLink], found: Iterable[Measurement], as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "links": [_document(pair, kept) for pair, kept in sorted(good.items())],
                "problems": [
                    {"nodes": list(m.nodes), "problem": m.problem} for m in found if m.link is None
                ],
            }
        )
    elif not good:
        messages.print("staves: no link is known")
    else:
        rows = [
            (*pair, _speed(kept.link), f"{kept.link.latency * 1e3:.3g} ms", ago(kept.measured_at))
            for pair, kept in sorted(good.items())
        ]
        print_table(("node", "node", "speed", "latency", "age"), rows)


def _document(pair: tuple[str, str], kept: KeptLink) -> dict[str, Any]:
    return {
        "nodes": list(pair),
        "bits_per_second": kept.link.bits_per_second,
        "latency_seconds": kept.link.latency,
        "measured_at": kept.measured_at,
    }


def _speed(link: Link) -> str:
    bits = link.bits_per_second
    return f"{bits / 1e9:.3g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"
