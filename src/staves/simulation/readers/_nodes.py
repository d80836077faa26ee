"""Lists of nodes: what a cluster consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from staves.errors import InputError, quoted
from staves.hardware import Cluster, DeviceType, Node
from staves.simulation._counted import Counted, Tally
from staves.simulation._csv import Row
from staves.simulation.readers._devices import declared_type, device_type
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import REPEATED

_MOST_NODES = 1_000_000
_UNKNOWN = "have devices of an unknown type"
_UNNAMED = "gpu"


@dataclass(frozen=True, slots=True)
class NodeList:
    """The nodes of a cluster.

    Args:
        name: for reports.
        cluster: nodes with devices.
        counted: what was dropped or put right.
        assumed: what the file does not say, one line each.
    """

    name: str
    cluster: Cluster
    counted: tuple[Counted, ...] = ()
    assumed: tuple[str, ...] = ()


def _read_openb(source: Source) -> NodeList:
    """Read openb's nodes: `model` is empty for nodes without devices."""
    tally = Tally()
    nodes: dict[str, Node] = {}
    for row in source.rows(("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        name, devices = row.text("sn"), row.count("gpu")
        for column in ("cpu_milli", "memory_mib"):
            row.number(column)
        if devices == 0:
            tally.drop("have no device", row.line)
            continue
        known = device_type(row.text("model"))
        if known is None:
            tally.drop(_UNKNOWN, row.line)
            continue
        _add(nodes, row, "sn", name, {known: devices}, tally)
    assumed = ("what G2 and G3 are is not disclosed",)
    return _node_list(source, nodes.values(), tally, assumed)


def _read_spot(source: Source) -> NodeList:
    """Read the nodes of Alibaba's cluster of spot GPUs."""
    tally = Tally()
    nodes: dict[str, Node] = {}
    for row in source.rows(("gpu_model", "gpu_capacity_num", "cpu_num", "node_name")):
        name, devices = f"node-{row.text('node_name')}", row.count("gpu_capacity_num")
        row.number("cpu_num")
        known = device_type(row.text("gpu_model"))
        if devices == 0 or known is None:
            tally.drop(_UNKNOWN if devices else "have no device", row.line)
            continue
        _add(nodes, row, "node_name", name, {known: devices}, tally)
    assumed = ("what GPU-series-1 and GPU-series-2 are is not disclosed",)
    return _node_list(source, nodes.values(), tally, assumed)


def _add(
    nodes: dict[str, Node],
    row: Row,
    column: str,
    name: str,
    devices: Mapping[str, int],
    tally: Tally,
) -> None:
    """Take a node, unless it repeats another line."""
    try:
        node = Node(name, devices)
    except InputError as error:
        raise row.error(column, error.message) from None
    if name not in nodes:
        nodes[name] = node
    elif nodes[name].devices == node.devices:
        tally.drop(REPEATED, row.line)
    else:
        raise row.error(column, f"{quoted(name)} stands twice, for unlike nodes")


def _read_switches(source: Source) -> NodeList:
    """Read a cluster of Tiresias's line: switches, nodes a switch, devices a node."""
    columns = ("num_switch", "num_node_p_switch", "num_gpu_p_node")
    rows = list(source.rows((*columns, "num_cpu_p_node", "mem_p_node")))
    if len(rows) != 1:
        raise InputError(
            f"{source.path}:{rows[1].line if rows else 2}: {len(rows)} lines, wanted one",
            hint="one line describes the whole cluster",
        )
    row = rows[0]
    switches, nodes, devices = (row.count(column, least=1) for column in columns)
    for column in ("num_cpu_p_node", "mem_p_node"):
        row.number(column)
    if switches * nodes * devices > _MOST_NODES:
        raise row.error("num_switch", f"{switches * nodes} nodes of {devices} devices: too many")
    made = [Node(f"node-{index}", {_UNNAMED: devices}) for index in range(switches * nodes)]
    return _node_list(source, made, Tally(), ("the device type is not told: gpu",))


_GAVEL_TYPES = ("v100", "p100", "k80")


def _read_gavel(source: Source) -> NodeList:
    """Read Gavel's `{"philly": ["500:0:0"]}`: numbers of v100, p100 and k80."""
    made: list[Node] = []
    tally = Tally()
    for key, texts in source.document.items():
        if not isinstance(texts, list) or len(texts) < 1:
            raise InputError(f"{source.path}: {quoted(key)}: must be a list", hint='["500:0:0"]')
        for text in texts[1:]:
            tally.drop("are a further choice of cluster, such as " + quoted(text))
        counts = str(texts[0]).split(":")
        if len(counts) != 3 or not all(part.isascii() and part.isdigit() for part in counts):
            raise InputError(
                f"{source.path}: {quoted(key)}: {quoted(texts[0])} is not V100:P100:K80",
                hint="like 500:0:0",
            )
        if any(len(part) > 7 for part in counts):
            raise InputError(
                f"{source.path}: {quoted(key)}: {quoted(texts[0])}: too many devices",
                hint="like 500:0:0",
            )
        made += [
            Node(f"{name}-{index}", {name: 1})
            for name, count in zip(_GAVEL_TYPES, counts, strict=True)
            for index in range(int(count))
        ]
        break
    return _node_list(source, made, tally, ("the size of nodes is not told: one device each",))


def _is_gavel(source: Source) -> bool:
    document = source.document
    return (
        isinstance(document, Mapping)
        and bool(document)
        and all(isinstance(value, list) for value in document.values())
    )


def _node_list(
    source: Source, nodes: Iterable[Node], tally: Tally, assumed: tuple[str, ...]
) -> NodeList:
    made = tuple(nodes)
    if not made:
        raise InputError(
            f"{source.path}:2: no node with a device", hint="the file may be cut short"
        )
    names = {name for node in made for name in node.devices}
    types: dict[str, DeviceType] = {name: declared_type(name) for name in sorted(names)}
    return NodeList(source.name, Cluster(types, made), tally.counted(), assumed)


FORMATS = (
    Format(
        "openb node list",
        "nodes",
        _read_openb,
        ("sn", "cpu_milli", "memory_mib", "gpu", "model"),
    ),
    Format(
        "Alibaba spot GPU node list",
        "nodes",
        _read_spot,
        ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name"),
    ),
    Format(
        "cluster of Tiresias, Muri or ElasticFlow",
        "nodes",
        _read_switches,
        ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node"),
    ),
    Format("Gavel cluster", "nodes", _read_gavel, shape=_is_gavel),
)
