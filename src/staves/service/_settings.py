"""What a controller is started with."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLER = "staves.service._controller:build_service"
"""Module and function that make the `Service`, of home, cluster file, engine, policy, the engine's
options and quotas."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a controller is started with.

    Args:
        home: the folder of everything Staves keeps.
        port: on loopback; 0 for a free one.
        cluster: the cluster file; None for the last one, or else what the engine finds.
        engine: local, ray or slurm.
        options: of the engine, by name.
        policy: as `staves policies` lists them.
        controller: see `CONTROLLER`.
        quotas: devices that jobs of a tenant may have together, by tenant.
    """

    home: Path
    port: int = 0
    cluster: Path | None = None
    engine: str = "local"
    policy: str = "heet"
    options: Mapping[str, str] = field(default_factory=dict)
    controller: str = field(default_factory=lambda: CONTROLLER)
    quotas: Mapping[str, int] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Return the arguments of `python -m staves.service`."""
        arguments = [f"--home={self.home}", f"--port={self.port}", f"--engine={self.engine}"]
        arguments += [f"--policy={self.policy}", f"--controller={self.controller}"]
        arguments += [f"--option={name}={value}" for name, value in self.options.items()]
        if self.cluster is not None:
            arguments.append(f"--cluster={self.cluster}")
        if self.quotas:
            arguments.append(f"--quotas={json.dumps(dict(self.quotas))}")
        return arguments

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Settings:
        """Return what `arguments` made."""
        parser = argparse.ArgumentParser("python -m staves.service", allow_abbrev=False)
        parser.add_argument("--home", type=Path, required=True)
        parser.add_argument("--port", type=int, default=0)
        parser.add_argument("--cluster", type=Path)
        parser.add_argument("--engine", default="local")
        parser.add_argument("--policy", default="heet")
        parser.add_argument("--controller", default=CONTROLLER)
        parser.add_argument("--option", dest="options", action="append", default=[])
        parser.add_argument("--quotas", type=json.loads, default={})
        found = vars(parser.parse_args(arguments))
        pairs = (option.partition("=") for option in found.pop("options"))
        return cls(**found, options={name: value for name, _, value in pairs})
