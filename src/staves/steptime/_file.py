"""The step-time file: a model as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from staves.documents import LONGEST_SECONDS, Document, parse, read_text
from staves.errors import InputError
from staves.steptime._model import Communication, Device, Line, StepTimeModel

_Seconds = Annotated[float, Field(ge=0, le=LONGEST_SECONDS)]
_Samples = Annotated[int, Field(ge=0, le=2**53)]


class _LineDocument(Document):
    fixed: _Seconds
    per_sample: _Seconds
    floor_seconds: _Seconds = 0.0

    def line(self) -> Line:
        return Line(self.fixed, self.per_sample, self.floor_seconds)


class _DeviceDocument(Document):
    name: Annotated[str, Field(min_length=1)]
    type: Annotated[str, Field(min_length=1)]
    forward: _LineDocument
    backward: _LineDocument
    min_batch: _Samples = 0
    max_batch: _Samples | None = None
    idle: _Seconds | None = None

    @model_validator(mode="after")
    def _fits(self) -> _DeviceDocument:
        self.device()
        return self

    def device(self) -> Device:
        return Device(
            self.name,
            self.type,
            self.forward.line(),
            self.backward.line(),
            self.min_batch,
            self.max_batch,
            self.idle,
        )


class _CommunicationDocument(Document):
    ready: list[_Seconds]
    seconds: list[_Seconds]

    @model_validator(mode="after")
    def _fits(self) -> _CommunicationDocument:
        self.communication()
        return self

    def communication(self) -> Communication:
        return Communication(tuple(self.ready), tuple(self.seconds))


class _StepTimeDocument(Document):
    devices: list[_DeviceDocument]
    communication: _CommunicationDocument
    void: bool = False

    def model(self) -> StepTimeModel:
        devices = tuple(device.device() for device in self.devices)
        return StepTimeModel(devices, self.communication.communication())


def _unheard(line: str) -> None:
    """Take a warning that nobody wants to hear."""


def read_model(path: Path | str, *, on_warning: Callable[[str], None] = _unheard) -> StepTimeModel:
    """Read a step-time file (JSON, whatever its name).

    Args:
        path: of the file.
        on_warning: called with a line where the file says that it is void: measured on emulated
            devices of which too many steps were late.

    Raises:
        InputError: the file is absent, unreadable, malformed or describes no model: unknown keys,
            negative, non-finite or huge numbers, no device, two of one name, bad buckets.
    """
    return parse_model(read_text(path), source=str(path), on_warning=on_warning)


def parse_model(
    text: str, *, source: str, on_warning: Callable[[str], None] = _unheard
) -> StepTimeModel:
    """Parse the text of a step-time file; `source` names it in errors. Else as `read_model`."""
    document = parse(text, _StepTimeDocument, source=source, json_only=True)
    if document.void:
        on_warning(f"{source} is void: the machine was too busy when it was measured")
    try:
        return document.model()
    except InputError as error:
        raise InputError(f"{source}: {error.message}", hint=error.hint) from None


def to_document(model: StepTimeModel) -> dict[str, Any]:
    """Return the step-time file of `model`, ready for `json.dumps`; defaults are left out."""
    return {
        "devices": [_device(device) for device in model.devices],
        "communication": {
            "ready": list(model.communication.ready),
            "seconds": list(model.communication.seconds),
        },
    }


def _device(device: Device) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": device.name,
        "type": device.type,
        "forward": _line(device.forward),
        "backward": _line(device.backward),
        "min_batch": device.min_batch,
    }
    if device.max_batch is not None:
        document["max_batch"] = device.max_batch
    if device.idle is not None:
        document["idle"] = device.idle
    return document


def _line(line: Line) -> dict[str, float]:
    document = {"fixed": line.fixed, "per_sample": line.per_sample}
    return document | {"floor_seconds": line.floor} if line.floor else document
