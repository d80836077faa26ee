"""What `sinfo` prints becomes a cluster; devices become what `sbatch` is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.engines.slurm._discovery import cluster_of, gres_for, gres_of, parse
from staves.errors import InputError
from staves.hardware import parse_cluster

PLAIN = """\
login1|idle|(null)
gpu01|mixed|gpu:a100:4(S:0-1)
gpu02|allocated|gpu:nvidia_a100-sxm4-80gb:2(S:0),gpu:tesla_t4:1(S:1),shard:8
gpu02|allocated|gpu:nvidia_a100-sxm4-80gb:2(S:0),gpu:tesla_t4:1(S:1),shard:8
gpu03|idle|gpu:4
gpu04|idle~|gpu:v100:1
"""


def test_gpus_become_devices_of_known_types() -> None:
    cluster = cluster_of(parse(PLAIN), None)
    assert [(node.name, dict(node.devices)) for node in cluster.nodes] == [
        ("gpu01", {"a100": 4}),
        ("gpu02", {"a100-80gb": 2, "t4": 1}),
        ("gpu03", {"gpu": 4}),
        ("gpu04", {"v100": 1}),
    ]
    assert cluster.types["a100"].memory_bytes == 40 * 10**9


OUT = (
    "down down* idle* drained draining mixed* fail maint reserved unknown inval powering_down idle%"
    " drained~ future error mixed$"
)


@pytest.mark.parametrize("state", OUT.split())
def test_nodes_that_cannot_be_used_are_left_out(state: str) -> None:
    assert parse(f"a|{state}|gpu:t4:1\nb|idle|gpu:t4:1") == parse("b|idle|gpu:t4:1")


def test_a_reservation_that_jobs_name_can_be_used() -> None:
    (node,) = parse("a|reserved|gpu:t4:1", reserved=True)
    assert node.gres == {"gpu:t4": 1}


def test_a_file_declares_types_links_and_cpus() -> None:
    file = parse_cluster(
        """
        types:
          odd: {memory: 5GB}
        nodes:
          - {name: a, devices: {odd: 1, local-cpu: 3}, link: 1Gbit}
          - {name: elsewhere, devices: {t4: 1}, link: 10Gbit}
        """
    )
    cluster = cluster_of(parse("a|idle|gpu:odd:2\nb|idle|gpu:t4:1\nc|idle|(null)"), file)
    assert [(node.name, dict(node.devices)) for node in cluster.nodes] == [
        ("a", {"odd": 2, "local-cpu": 3}),
        ("b", {"t4": 1}),
    ]
    assert [node.link_bits_per_second for node in cluster.nodes] == [1e9, 1e10]
    assert cluster.types["odd"].memory_bytes == 5 * 10**9


def test_devices_are_claimed_as_slurm_calls_them() -> None:
    node = parse(PLAIN)[2]
    assert gres_for(node, {"a100-80gb": 1}, {}) == "gpu:nvidia_a100-sxm4-80gb:1"
    both = gres_for(node, {"a100-80gb": 2, "t4": 1}, {})
    assert both == "gpu:nvidia_a100-sxm4-80gb:2,gpu:tesla_t4:1"
    assert gres_for(node, {"local-cpu": 2}, {}) == ""
    with pytest.raises(InputError, match="gpu02 does not have 3 devices of a100-80gb"):
        gres_for(node, {"a100-80gb": 3}, {})


def test_two_names_of_one_type_are_claimed_together() -> None:
    (node,) = parse("a|idle|gpu:tesla_v100:1,gpu:v100:2")
    assert dict(cluster_of([node], None).nodes[0].devices) == {"v100": 3}
    assert gres_for(node, {"v100": 2}, {}) == "gpu:tesla_v100:1,gpu:v100:1"


@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9_.-]{0,9}", fullmatch=True), st.integers(0, 99)),
    st.sampled_from(["", "(S:0-1)", "(S:0,2)", "(IDX:0-3)"]),
    st.integers(0, 3),
)
def test_counts_are_read_as_they_were_written(
    counts: dict[str, int], sockets: str, others: int
) -> None:
    parts = [f"gpu:{name}:{count}{sockets}" for name, count in counts.items()]
    parts += [f"shard:{n}{sockets}" for n in range(others)] + ["craynetwork:4"] * bool(others)
    wanted = {f"gpu:{name}": count for name, count in counts.items() if count}
    assert gres_of(",".join(parts) or "(null)") == wanted
