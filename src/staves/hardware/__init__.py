"""What there is to run on: device types, nodes, clusters, configurations and allocations.

A cluster comes from a file (`read_cluster`) or from the machine itself (`this_machine`). Importing
this room loads no torch.
"""

from staves.hardware._allocation import Allocation, first_free
from staves.hardware._cluster import Cluster, Device, Node
from staves.hardware._configuration import Configuration
from staves.hardware._file import (
    MOST_DEVICES,
    cluster_schema,
    parse_cluster,
    read_cluster,
    to_document,
)
from staves.hardware._gpu_names import device_type_from_name
from staves.hardware._kept_links import KeptLink, KeptLinks
from staves.hardware._known import KNOWN_TYPES, LOCAL_CPU, known_type, peak_teraflops
from staves.hardware._layout import Layout
from staves.hardware._links import Link, pair_of
from staves.hardware._machine import this_machine, visible_gpus
from staves.hardware._types import MISSES_ALLOWED, DeviceProfile, DeviceType, Pace

__all__ = [
    "KNOWN_TYPES",
    "LOCAL_CPU",
    "MISSES_ALLOWED",
    "MOST_DEVICES",
    "Allocation",
    "Cluster",
    "Configuration",
    "Device",
    "DeviceProfile",
    "DeviceType",
    "KeptLink",
    "KeptLinks",
    "Layout",
    "Link",
    "Node",
    "Pace",
    "cluster_schema",
    "device_type_from_name",
    "first_free",
    "known_type",
    "pair_of",
    "parse_cluster",
    "peak_teraflops",
    "read_cluster",
    "this_machine",
    "to_document",
    "visible_gpus",
]
