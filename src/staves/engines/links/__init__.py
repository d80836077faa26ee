"""Measures the links between an engine's nodes, by a small job on each pair of them."""

from staves.engines.links._measuring import Measurement, measure_links
from staves.engines.links._rounds import rounds_of

__all__ = ["Measurement", "measure_links", "rounds_of"]
