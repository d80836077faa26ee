"""Conformance suites: what every engine must do, as tests that a new one inherits."""

from staves.testing._engine import EngineCases

__all__ = ["EngineCases"]
