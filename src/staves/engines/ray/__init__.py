"""The engine on a Ray cluster: agents run in actors, each bound to its node and its devices."""

from staves.engines.ray._nodes import RayNodes

__all__ = ["RayNodes"]
