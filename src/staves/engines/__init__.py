"""Engines: they place and start workers where somebody else decided that they should run."""
