"""The published set-ups: what the simulators of Sia (SOSP '23) and Pollux (OSDI '21) assume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from staves.errors import InputError
from staves.hardware import Cluster, Node, known_type

TYPE_NAMES: Mapping[str, str] = {
    "": "t4",
    "aws": "t4",
    "rtx": "rtx2080ti",
    "dgx-ext": "a100",
    "quad": "rtx6000",
    "azure": "v100",
}
"""Suffixes of profile files, and the device types that they mean."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What profiles do not say.

    Args:
        epochs: to run, by application; all that there are for one that is absent.
        pause_seconds: of a start or a restart, by application.
        other_pause_seconds: for one that is absent.
        calibration: by application, 1 for one that is absent.
        largest_local: samples a device at most, by application and type (`*`: any).
        most_devices: by application, 64 for one that is absent.
    """

    epochs: Mapping[str, int] = field(default_factory=dict)
    pause_seconds: Mapping[str, float] = field(default_factory=dict)
    other_pause_seconds: float = 30.0
    calibration: Mapping[str, float] = field(default_factory=dict)
    largest_local: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    most_devices: Mapping[str, int] = field(default_factory=dict)


_EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}

SETUPS: Mapping[str, Setup] = {
    "sia": Setup(
        epochs=_EPOCHS,
        pause_seconds={
            "bert": 120.0,
            "cifar10": 50.0,
            "deepspeech2": 25.0,
            "imagenet": 250.0,
            "yolov3": 80.0,
            "ncf": 15.0,
        },
        calibration={
            "cifar10": 1.8,
            "imagenet": 1.2,
            "yolov3": 1.2,
            "bert": 1.2,
            "deepspeech2": 1.2,
            "ncf": 1.5,
        },
        largest_local={"deepspeech2": {"rtx2080ti": 57}},
        most_devices={"ncf": 1},
    ),
    "pollux": Setup(epochs=_EPOCHS, largest_local={"yolov3": {"*": 8}}),
}


def sia_cluster(scale: int = 1) -> Cluster:
    """Return `scale` times the 64 devices of the Sia paper: 24 T4, 24 RTX 2080 Ti and 16 A100.

    Raises:
        InputError: `scale` is below 1.
    """
    if scale < 1:
        raise InputError(f"the scale {scale} is below 1", hint="sia-64 is scale 1")
    kinds = (("t4", 6, 4), ("rtx2080ti", 3, 8), ("a100", 2, 8))
    return Cluster(
        {name: known_type(name) for name, _, _ in kinds},
        tuple(
            Node(f"{name}-{index}", {name: devices})
            for name, nodes, devices in kinds
            for index in range(scale * nodes)
        ),
    )
