from __future__ import annotations

from staves.hardware import Configuration, Layout, Link, parse_cluster


def test_a_layout_is_what_nodes_hold_together_and_their_slowest_links() -> None:
    cluster = parse_cluster(
        """
nodes:
  - {count: 3, devices: {a100: 4}, link: 10Gbit}
  - {devices: {a100: 4}, link: 1Gbit}
  - {devices: {a100: 2, t4: 1}}
  - {devices: {v100: 1, t4: 2}, link: 5Gbit}
"""
    )
    layout = Layout.of(cluster)
    assert layout.shapes == tuple(
        map(Configuration.parse, ("4xa100", "2xa100+1xt4", "1xv100+2xt4"))
    )
    slowest = {"a100": 1e9, "a100 t4": 1e9, "a100 v100": 1e9, "t4": 5e9, "v100 t4": 5e9}
    assert {types: layout.link(types.split()) for types in slowest} == {
        types: Link(speed) for types, speed in slowest.items()
    }
    assert layout.link(["v100"]) is None  # there is one node with any: it meets no other
    assert {d.link_bits_per_second for d in cluster.devices()} == {1e10, 1e9, None, 5e9}
