from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.hardware import (
    KNOWN_TYPES,
    Cluster,
    DeviceProfile,
    DeviceType,
    Node,
    Pace,
    cluster_schema,
    parse_cluster,
    read_cluster,
    to_document,
)

EXAMPLE = """
types:
  a100:
    memory: 40GB
    emulate: {forward: {fixed: 4ms, per_sample: 0.6ms}, backward: {fixed: 6ms, per_sample: 1.2ms}}
nodes:
  - {name: n, count: 2, devices: {a100: 2, local-cpu: 1}, link: 200Mbit}
"""


def test_the_example() -> None:
    cluster = parse_cluster(EXAMPLE)
    profile = DeviceProfile(Pace(0.004, 0.0006), Pace(0.006, 0.0012))
    assert cluster.types["a100"] == DeviceType("a100", 40 * 10**9, profile)
    assert cluster.types["local-cpu"] == KNOWN_TYPES["local-cpu"]
    assert [node.name for node in cluster.nodes] == ["n-0", "n-1"]
    assert cluster.nodes[1].link_bits_per_second == 2e8
    assert str(cluster.configuration) == "4xa100+2xlocal-cpu"
    assert cluster.emulated
    assert not cluster.fully_emulated


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ([{}, {}], ["node-0", "node-1"]),
        ([{"count": 2}, {}], ["node-0", "node-1", "node-2"]),
        (
            [{"name": "a"}, {}, {"name": "b", "count": 2}, {}],
            ["a", "node-0", "b-0", "b-1", "node-1"],
        ),
        ([{"name": "a", "count": 1}], ["a-0"]),
        ([{}, {"name": "node-0"}, {}], ["node-1", "node-0", "node-2"]),
    ],
)
def test_names_of_nodes(entries: list[dict[str, object]], names: list[str]) -> None:
    document = {"nodes": [{**entry, "devices": {"t4": 1}} for entry in entries]}
    assert [node.name for node in parse_cluster(json.dumps(document)).nodes] == names


def test_declared_types() -> None:
    cluster = parse_cluster("types: {new: {}, t4: {memory: 15GiB}}\nnodes: [{devices: {new: 1}}]")
    assert cluster.types["new"] == DeviceType("new")
    assert cluster.types["t4"].memory_bytes == 15 * 2**30
    times = "{forward: {fixed: 1s, per_sample: 0, floor: 2s}, backward: {fixed: 0, per_sample: 0s}"
    cluster = parse_cluster(
        f"types: {{v100: {{emulate: {times}, min_batch: 2, max_batch: 8}}}}}}\n"
        "nodes: [{devices: {v100: 1}}]"
    )
    v100 = cluster.types["v100"]
    assert v100.memory_bytes == 16 * 10**9  # what the file leaves out stays as it is known
    assert v100.profile == DeviceProfile(Pace(1, 0, 2), Pace(0, 0), max_batch=8, min_batch=2)


def emulate(forward: str, more: str = "") -> str:
    backward = "backward: {fixed: 0s, per_sample: 0s}"
    return (
        f"types: {{x: {{emulate: {{forward: {forward}, {backward}{more}}}}}}}\n"
        "nodes: [{devices: {x: 1}}]"
    )


ONE = "nodes: [{devices: {t4: 1}}]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f: is empty, not a mapping of keys (keys: types, nodes)"),
        ("types: {}", "f: nodes: is missing"),
        ("nodes: []", "f: nodes: no devices"),
        ("nodes: [{devices: {}}]", "f: nodes: no devices"),
        (
            "nodes: [{count: 999999999, devices: {}}]",
            "f: nodes: 999999999 nodes are more than 1000000 (lower a count)",
        ),
        (
            "nodes: [{count: 100000, devices: {t4: 100000}}]",
            "f: nodes: 10000000000 devices are more than",
        ),
        ("nodes: [{name: n}]", "f: nodes[0].devices: is missing"),
        (
            "nodes: [{devices: {t44: 1}}]",
            "f: nodes[0].devices.t44: unknown device type (did you",
        ),
        ("nodes: [{devices: {A100: 1}}]", "(did you mean 'a100'?; or declare it under types)"),
        ("nodes: [{devices: {zzzz: 1}}]", "are known, nearest: "),
        ("nodes: [{devices: {t4: 0}}]", "f: nodes[0].devices.t4: must be at least 1, not 0"),
        ("nodes: [{devices: {t4: -1}}]", "f: nodes[0].devices.t4: must be at least 1, not -1"),
        ("nodes: [{devices: {t4: 1.0}}]", "f: nodes[0].devices.t4: must be a whole number"),
        ("nodes: [{devices: {t4: true}}]", "f: nodes[0].devices.t4: must be a whole number"),
        ("nodes: [{devices: {t4: '1'}}]", "not '1' (take the quotes off)"),
        ("nodes: [{devices: [t4]}]", "f: nodes[0].devices: must be a mapping of keys, not a list"),
        ("nodes: [{devices: {t4: 1}, count: 0}]", "f: nodes[0].count: must be at least 1, not 0"),
        (
            "nodes: [{devices: {t4: 1}, nmae: x}]",
            "f: nodes[0].nmae: unknown key (did you mean 'name'",
        ),
        ("nodes: [{devices: {t4: 1}, link: 200}]", "f: nodes[0].link: 200 is not a quantity"),
        ("nodes: [{devices: {t4: 1}, link: 0Mbit}]", "f: nodes[0].link: must be above zero"),
        ("nodes: [{devices: {t4: 1}, name: a b}]", "f: nodes[0].name: node 'a b' is not a name"),
        ("nodes: [{devices: {t4: 1}, name: ''}]", "f: nodes[0].name: node '' is not a name"),
        ("nodes: {a: {devices: {t4: 1}}}", "f: nodes: must be a list, not a mapping"),
        (f"nodez: 1\n{ONE}", "f: nodez: unknown key (did you mean 'nodes'?)"),
        (f"types: {{x: }}\n{ONE}", "f: types.x: must be a mapping of keys, not nothing"),
        (f"types: {{x: {{memory: 40}}}}\n{ONE}", "f: types.x.memory: 40 is not a quantity"),
        (f"types: {{x: {{memory: 0GB}}}}\n{ONE}", "f: types.x.memory: must be above zero"),
        (
            f"types: {{x: {{memroy: 1GB}}}}\n{ONE}",
            "f: types.x.memroy: unknown key (did you mean 'mem",
        ),
        (f"types: {{x y: {{}}}}\n{ONE}", "f: types.x y: device type 'x y' is not a name"),
        (emulate("{fixed: 0s, per_sample: 0s}"), "f: types.x.emulate: all times are zero"),
        (
            emulate("{fixed: 3, per_sample: 0s}"),
            "f: types.x.emulate.forward.fixed: 3 is not a quant",
        ),
        (emulate("{fixed: .nan, per_sample: 0s}"), "emulate.forward.fixed: nan is not a quantity"),
        (emulate("{fixed: .inf, per_sample: 0s}"), "emulate.forward.fixed: inf is not a quantity"),
        (emulate("{fixed: -1s, per_sample: 0s}"), "must be finite and not negative"),
        (emulate("{fixed: 1e999s, per_sample: 0s}"), "must be finite and not negative"),
        (
            emulate("{fixed: 1e19s, per_sample: 0s}"),
            "'1e19s' is longer than 1e+18 seconds (shorten",
        ),
        (
            emulate("{fixed: 1s, per_sample: 0}", ", max_batch: 9007199254740993"),
            "f: types.x.emulate.max_batch: must be at most 9007199254740992, not 9007199254740993",
        ),
        (
            emulate("{fixed: 1s, per_sample: 0}", ", min_batch: 9007199254740993"),
            "f: types.x.emulate.min_batch: must be at most 9007199254740992, not 9007199254740993",
        ),
        ("nodes: [{devices: {t4: 1:30}}]", "f: nodes[0].devices.t4: must be a whole number"),
        (f"nodes: [{{devices: {{t4: {'9' * 900}}}}}]", "f: nodes: 9999999"),
        (emulate("{fixed: 1s}"), "f: types.x.emulate.forward.per_sample: is missing"),
        (
            emulate("{fixed: 1s, per_sample: 0, flor: 1s}"),
            "forward.flor: unknown key (did you mean",
        ),
        (emulate("{fixed: 1s, per_sample: 0}", ", max_batch: 0"), "max_batch: must be at least 1"),
        (
            emulate("{fixed: 1s, per_sample: 0}", ", max_batch: 2, min_batch: 3"),
            "f: types.x.emulate: max_batch 2 must be at least 1 and at least min_batch (3)",
        ),
        (
            "nodes: [{name: n, devices: {t4: 1}}, {name: n, devices: {t4: 1}}]",
            "f: nodes[1].name: 'n' stands twice",
        ),
        (
            "nodes: [{name: n, count: 2, devices: {t4: 1}}, {name: n-1, devices: {t4: 1}}]",
            "f: nodes[1].name: 'n-1' stands twice",
        ),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_cluster(text, source="f")
    assert expected in str(caught.value)
    assert str(caught.value).startswith("f: ")
    assert len(str(caught.value)) < 300
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("types: {yes: {}}\nnodes: []", "f:1:9: a key must be text, not yes, which YAML reads as"),
        (
            "nodes: [{devices: {~: 1}}]",
            "f:1:20: a key must be text, not ~, which YAML reads as noth",
        ),
    ],
)
def test_keys_that_are_no_text(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_cluster(text, source="f")
    assert str(caught.value).startswith(expected)


def test_a_leading_zero_is_no_octal() -> None:
    assert parse_cluster("nodes: [{devices: {t4: 010}}]").total == 10


def test_more_cpu_devices_than_cores_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert not parse_cluster("nodes: [{devices: {local-cpu: 2}}]").warnings
    (warning,) = parse_cluster("nodes: [{count: 3, devices: {local-cpu: 1}}]").warnings
    assert warning == "3 local-cpu devices share 2 cores: their speeds will vary"
    text = (
        emulate("{fixed: 1s, per_sample: 0}")
        .replace("x:", "local-cpu:")
        .replace(": 1}}]", ": 9}}]")
    )
    assert not parse_cluster(text).warnings


def test_reading_a_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(EXAMPLE)
    assert read_cluster(path) == parse_cluster(EXAMPLE)
    path.write_text("nodes: [{devices: {t5: 1}}]")
    with pytest.raises(InputError, match=re.escape(f"{path}: nodes[0].devices.t5")):
        read_cluster(str(path))
    with pytest.raises(InputError, match="no such file"):
        read_cluster(tmp_path / "absent.yaml")


times = st.floats(0, 1e3)
paces = st.builds(Pace, times, times, times | st.just(0.0))
profiles = st.tuples(
    paces, paces, st.integers(0, 9), st.none() | st.integers(1, 99), st.floats(1e-6, 1)
).map(
    lambda drawn: DeviceProfile(
        Pace(drawn[0].fixed + drawn[4], drawn[0].per_sample, drawn[0].floor),
        drawn[1],
        None if drawn[3] is None else drawn[3] + drawn[2],
        drawn[2],
    )
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    types = dict(KNOWN_TYPES)
    for name in draw(st.sets(st.sampled_from(["new", "other.2", "a100", "local-cpu"]))):
        memory = draw(st.integers(1, 2**50))
        types[name] = DeviceType(name, memory, draw(st.none() | profiles))
    counts = st.dictionaries(st.sampled_from(sorted(types)), st.integers(1, 4), min_size=1)
    names = draw(st.lists(st.sampled_from(["a", "b-1", "node-0", "4"]), min_size=1, unique=True))
    nodes = tuple(Node(name, draw(counts), draw(st.none() | st.floats(1, 1e13))) for name in names)
    used = {name for node in nodes for name in node.devices}
    return Cluster({name: types[name] for name in types if name in used}, nodes)


@given(clusters())
def test_what_is_written_reads_back(cluster: Cluster) -> None:
    document = to_document(cluster)
    for text in (yaml.safe_dump(document, sort_keys=False), json.dumps(document)):
        again = parse_cluster(text)
        assert again == cluster
        assert again.devices() == cluster.devices()


def test_the_schema_is_json_and_knows_every_key() -> None:
    schema = json.loads(json.dumps(cluster_schema()))
    assert set(schema["properties"]) == {"types", "nodes"}
    assert schema["required"] == ["nodes"]
    assert schema["additionalProperties"] is False
    assert set(schema["$defs"]["NodeEntry"]["properties"]) == {"name", "count", "devices", "link"}
    pattern = schema["$defs"]["PaceEntry"]["properties"]["fixed"]["pattern"]
    assert re.search(pattern, "0.6ms")
    assert not re.search(pattern, "0.6")
