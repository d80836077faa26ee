"""Documents at the edge: YAML and JSON files, units, and one-line errors with a path and a hint.

Everything that people write by hand comes in through `read`; past this room the values are typed,
finite and in SI units.
"""

from staves.documents._problems import field_path
from staves.documents._read import Document, Items, parse, read, read_text
from staves.documents._suggest import suggestion
from staves.documents._units import LONGEST_SECONDS, BitsPerSecond, Bytes, Seconds, duration

__all__ = [
    "LONGEST_SECONDS",
    "BitsPerSecond",
    "Bytes",
    "Document",
    "Items",
    "Seconds",
    "duration",
    "field_path",
    "parse",
    "read",
    "read_text",
    "suggestion",
]
