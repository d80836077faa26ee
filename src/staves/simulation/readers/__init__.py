"""Readers of public files: jobs, nodes, availability and throughputs, recognised by their content.

A reader is one file with a `Format`: how its files are recognised, and a function from an opened
file to what it holds.
"""

from staves.simulation.readers._elasticflow_rates import is_folder_of_tables, read_tables
from staves.simulation.readers._gavel_rates import read_throughputs
from staves.simulation.readers._nodes import NodeList
from staves.simulation.readers._pollux import COLUMNS, OPTIONAL
from staves.simulation.readers._registry import (
    FORMATS,
    Contents,
    Recognised,
    read_availability,
    read_file,
    read_node_list,
    read_workload,
)
from staves.simulation.readers._sheet import Sheet, read_sheet
from staves.simulation.readers._table import Cell, ThroughputTable

__all__ = [
    "COLUMNS",
    "FORMATS",
    "OPTIONAL",
    "Cell",
    "Contents",
    "NodeList",
    "Recognised",
    "Sheet",
    "ThroughputTable",
    "is_folder_of_tables",
    "read_availability",
    "read_file",
    "read_node_list",
    "read_sheet",
    "read_tables",
    "read_throughputs",
    "read_workload",
]
