"""Conformance suites: what any policy or engine must do, the product's own and others' alike.

No room uses them. A suite is a class: derive from it in a test module, say which object is to be
tested, and the test runner finds the cases.
"""

from staves.testing._engine import EngineConformance
from staves.testing._placing import PlacingConformance, Training
from staves.testing._policy import PolicyConformance
from staves.testing._views import Scaling, random_view

__all__ = [
    "EngineConformance",
    "PlacingConformance",
    "PolicyConformance",
    "Scaling",
    "Training",
    "random_view",
]
