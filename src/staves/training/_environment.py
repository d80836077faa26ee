"""Where this process stands in its job: read once from the environment, checked at the edge."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from staves.errors import InputError
from staves.hardware import DeviceProfile

Launcher = Literal["none", "torchrun", "staves"]


@dataclass(frozen=True, slots=True)
class WorkerDevice:
    """The device this process computes on, as its launcher named it.

    `link` is the declared speed of its node's link in bits per second, None where there is none.
    """

    name: str
    type: str
    profile: DeviceProfile | None = None
    link: float | None = None

    @property
    def node(self) -> str:
        """The node that it is in: `node/type-0` names it; "" where the name says nothing."""
        return self.name.rpartition("/")[0]

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> WorkerDevice:
        """Return the device that a JSON document describes: name, type, perhaps a profile
        and a link."""
        profile = document.get("profile")
        return cls(
            document["name"],
            document["type"],
            None if profile is None else DeviceProfile.from_document(profile),
            document.get("link"),
        )


@dataclass(frozen=True, slots=True)
class Environment:
    """Rank, world and device of this process.

    `launcher` is "staves" under `staves run`, "torchrun" under torchrun or anything that sets the
    same variables, "none" under plain `python`: one process, no group. `measure_even` has every
    generation measure the even split for a few steps, to compare with. `probing` is a run that only
    measures: it reads and writes no checkpoint and no other file.
    """

    launcher: Launcher = "none"
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    member: int | None = None
    attempt: int = 1
    device: WorkerDevice = field(default_factory=lambda: WorkerDevice("local", "local"))
    batch: int | None = None
    split: str | None = None
    checkpoint: str | None = None
    checkpoint_every: str | None = None
    measure_even: bool = False
    probing: bool = False

    def cap(self, wanted: int | None) -> int | None:
        """Return the most samples that the device can hold at once, `wanted` as far as it can."""
        declared = self.device.profile.max_batch if self.device.profile else None
        caps = [cap for cap in (wanted, declared) if cap is not None]
        return min(caps) if caps else None

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Environment:
        """Read the environment.

        Raises:
            InputError: a variable is absent or malformed.
        """
        environ = os.environ if environ is None else environ
        if "RANK" not in environ or "WORLD_SIZE" not in environ:
            return cls()
        rank, world = _integer(environ, "RANK"), _integer(environ, "WORLD_SIZE")
        local_rank = _integer(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else rank
        if not 0 <= rank < world:
            raise InputError(f"RANK: {rank} is outside a world of {world}")
        if "STAVES_MEMBER" not in environ:
            device = WorkerDevice(f"rank-{rank}", "local")
            return cls(
                "torchrun",
                rank,
                local_rank,
                world,
                device=device,
                checkpoint=environ.get("STAVES_CHECKPOINT") or None,
                checkpoint_every=environ.get("STAVES_CHECKPOINT_EVERY") or None,
            )
        return cls(
            "staves",
            rank,
            local_rank,
            world,
            member=_integer(environ, "STAVES_MEMBER"),
            attempt=_integer(environ, "STAVES_ATTEMPT"),
            device=WorkerDevice.from_document(json.loads(environ["STAVES_DEVICE"])),
            batch=int(environ["STAVES_BATCH"]) if environ.get("STAVES_BATCH") else None,
            split=environ.get("STAVES_SPLIT") or None,
            checkpoint=environ.get("STAVES_CHECKPOINT") or None,
            checkpoint_every=environ.get("STAVES_CHECKPOINT_EVERY") or None,
            measure_even=environ.get("STAVES_MEASURE_EVEN") == "1",
            probing=environ.get("STAVES_PROBING") == "1",
        )


def _integer(environ: Mapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except (KeyError, ValueError):
        raise InputError(
            f"{name}: {environ.get(name)!r} in the environment is not an integer",
            hint="start the script with `staves run`, `torchrun` or plain `python`",
        ) from None
