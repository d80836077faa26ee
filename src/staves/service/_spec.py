"""What a job asks for: the job file's content in SI units, with every default filled in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from staves.documents import field_path, suggestion
from staves.errors import InputError, printable, quoted
from staves.hardware import MOST_DEVICES

LONGEST_NAME = 64  # characters
MOST_SAMPLES = 10**12  # of a batch
LONGEST_STRING = 128 * 1024 - 1  # bytes of one argument, or one variable, of a program on Linux

HIDDEN = "(hidden)"
"""What stands in a public document in the place of a value that was copied from the submitter."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job, as it was submitted.

    Args:
        name: for people; need not be unique, and is never all digits, as ids are.
        run: a shell command line (`/bin/sh -c`).
        workdir: the folder that is taken a snapshot of; absolute.
        minimum: devices below which it cannot run.
        maximum: devices that it can use; None where the file does not say: `minimum` as long as it
            is not known to be elastic, then as many as there are.
        types: names of the device types it may use; None for all.
        mix: whether devices of several types may work on it together.
        reference: its reference batch in samples; None where the script alone knows it.
        max_batch: the largest batch that it may be given, in samples.
        scaling: whether the batch follows goodput, or stays as it is.
        priority: 0 to 100; a higher one goes first.
        deadline: seconds after it was submitted by which it should have ended, for policies that go
            by that; None: no such time.
        guaranteed: devices that are never taken from it while it runs.
        grace: seconds that a rank may take to come to a step boundary.
        checkpoint: the folder of its checkpoints; absolute. None: one within the job's own folder.
        checkpoint_every: seconds between two of them; None: the trainer's default.
        env: variables that the file gives.
        passed_env: variables that were copied from the submitter's environment. May be secret: they
            are never shown.
        data: paths that are left out of the snapshot, and linked to the originals; absolute.
        outputs: folders that the job writes to; likewise.
        python: the interpreter whose folder comes first in PATH; absolute.
        per_device: whether `run` is started for each device, or once with all of them.
        retries: how many attempts that are lost, or cannot be started, are made up for. 0 also
            means that a job that is not elastic does not begin anew after a shutdown.
        max_snapshot: bytes that the snapshot may have.
        scaled: devices that its owner wants it to have (`staves scale`); None: as is best for all.
        tenant: whose quota it counts against; None: that of the user who submitted it.

    Raises:
        InputError: a value is out of bounds, or two contradict each other; the message begins with
            the field as the job file names it.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str
    run: str
    workdir: Path
    python: Path
    minimum: int = 1
    maximum: int | None = None
    types: tuple[str, ...] | None = None
    mix: bool = True
    reference: int | None = None
    max_batch: int | None = None
    scaling: Literal["goodput", "fixed"] = "goodput"
    priority: int = 50
    guaranteed: int = 0
    grace: float = 30.0
    checkpoint: Path | None = None
    checkpoint_every: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    passed_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    data: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    per_device: bool = True
    retries: int = 3
    max_snapshot: int = 200 * 10**6
    scaled: int | None = None
    deadline: float | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not self.run.strip() or "\0" in self.run:
            raise InputError("run: must be a shell command line", hint="run: python train.py")
        _at_least("devices.min", self.minimum, 1)
        _at_most("devices.min", self.minimum, MOST_DEVICES)
        if self.maximum is not None:
            _at_most("devices.max", self.maximum, MOST_DEVICES)
        if self.maximum is not None and self.maximum < self.minimum:
            raise InputError(
                f"devices.max: {self.maximum} is below devices.min ({self.minimum})",
                hint="raise max, or lower min",
            )
        if self.types is not None and (not self.types or len(set(self.types)) < len(self.types)):
            raise InputError(
                "devices.types: must name one type or more, each of them once",
                hint="leave it out for all types",
            )
        self._check_batch()
        _at_least("priority", self.priority, 0)
        _at_most("priority", self.priority, 100)
        if self.deadline is not None and self.deadline <= 0:
            raise InputError("deadline: must be above zero", hint="write one like 2h")
        if self.tenant is not None and not (
            0 < len(self.tenant) <= LONGEST_NAME and self.tenant.isprintable()
        ):
            raise InputError(
                f"tenant: {quoted(self.tenant)} is no name",
                hint=f"use at most {LONGEST_NAME} characters, all on one line",
            )
        _at_least("preemption.guaranteed", self.guaranteed, 0)
        _at_most("preemption.guaranteed", self.guaranteed, MOST_DEVICES)
        if self.maximum is not None and self.guaranteed > self.maximum:
            raise InputError(
                f"preemption.guaranteed: {self.guaranteed} is above devices.max ({self.maximum})",
                hint="lower guaranteed, or raise max",
            )
        if self.grace <= 0:
            raise InputError("preemption.grace: must be above zero", hint="write one like 30s")
        if self.checkpoint_every is not None and self.checkpoint_every <= 0:
            raise InputError("checkpoint.every: must be above zero", hint="write one like 5m")
        if self.scaled is not None:
            _at_least("scaled", self.scaled, 1)
        _at_least("retries", self.retries, 0)
        _at_most("retries", self.retries, 100)
        for where, names in (("env", self.env), ("pass_env", self.passed_env)):
            _check_variables(where, names)
        if both := sorted(self.env.keys() & self.passed_env.keys()):
            raise InputError(f"pass_env: {quoted(both[0])} stands in env, too", hint="keep one")
        for where, path in self._paths():
            if not path.is_absolute():
                raise InputError(f"{where}: {quoted(str(path))} must be absolute")

    def _check_batch(self) -> None:
        if self.reference is None:
            if self.max_batch is not None:
                raise InputError("batch.reference: is missing", hint="batch.max needs it")
            return
        _at_least("batch.reference", self.reference, 1)
        _at_most("batch.reference", self.reference, MOST_SAMPLES)
        if self.max_batch is None:
            return
        _at_most("batch.max", self.max_batch, MOST_SAMPLES)
        if self.max_batch < self.reference:
            raise InputError(
                f"batch.max: {self.max_batch} is below batch.reference ({self.reference})",
                hint="raise max, or lower reference",
            )
        if self.scaling == "fixed" and self.max_batch > self.reference:
            raise InputError(
                "batch.max: a batch of scaling: fixed never grows",
                hint="take max out, or write scaling: goodput",
            )

    def _paths(self) -> list[tuple[str, Path]]:
        named = [("workdir", self.workdir), ("python", self.python)]
        if self.checkpoint is not None:
            named.append(("checkpoint.dir", self.checkpoint))
        named += [(f"data[{place}]", path) for place, path in enumerate(self.data)]
        return named + [(f"outputs[{place}]", path) for place, path in enumerate(self.outputs)]

    def most_of(self, devices: Mapping[str, int]) -> int:
        """Return how many of a cluster's devices, by type, it may have at a time."""
        usable = [n for name, n in devices.items() if self.types is None or name in self.types]
        return sum(usable) if self.mix else max(usable, default=0)

    def check_startable(self, devices: Mapping[str, int], source: str) -> None:
        """Refuse what could never be started on a cluster, whatever its state.

        Args:
            devices: how many the cluster has, by type.
            source: names the job file.

        Raises:
            InputError: it has none of a type, or fewer devices than the job's minimum; or a text is
                one that the system hands on to no program.
        """
        self.check_texts(source)
        self.check_types(devices, source)
        most = self.most_of(devices)
        if self.minimum > most:
            what = "that it may use" if self.mix else "of one type that it may use"
            raise InputError(
                f"{source}: devices.min: {self.minimum} are wanted, the cluster has {most} {what}",
                hint="`staves nodes` lists them",
            )

    def check_texts(self, source: str) -> None:
        """Refuse texts that the system hands on to no program; `source` names the job file.

        Raises:
            InputError: one is too long, holds a zero byte, or is not Unicode, as a file's name may
                be.
        """
        _check_text(f"{source}: run", self.run, "put it in a script, and run that")
        for where, variables in (("env", self.env), ("pass_env", self.passed_env)):
            for name, value in variables.items():
                place = f"{source}: {where}.{printable(name)}"
                _check_text(place, f"{name}={value}", "put it in a file")
        for where, path in self._paths():
            _check_text(f"{source}: {where}", str(path), "name a shorter path")

    def check_types(self, known: Collection[str], source: str) -> None:
        """Refuse device types that are not among `known`; `source` names the job file.

        Raises:
            InputError: there is one; the hint names the nearest.
        """
        for place, name in enumerate(self.types or ()):
            if name not in known:
                where = field_path(("devices", "types", place))
                raise InputError(
                    f"{source}: {where}: unknown device type {quoted(name)}",
                    hint=suggestion(name, known),
                )

    def to_document(self) -> dict[str, Any]:
        """Return the spec as a JSON document, for the store and for submitting. Holds secrets."""
        document: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return document

    def public_document(self) -> dict[str, Any]:
        """Return what may be shown: `to_document` without the values of `passed_env`."""
        return {**self.to_document(), "passed_env": dict.fromkeys(self.passed_env, HIDDEN)}

    @classmethod
    def from_document(cls, document: object, source: str = "job") -> JobSpec:
        """Return the spec that `to_document` wrote; `source` names it in errors.

        Raises:
            InputError: it is malformed, or its values contradict each other.
        """
        try:
            return _ADAPTER.validate_python(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raised = first.get("ctx", {}).get("error")
            if isinstance(raised, InputError):
                raise InputError(f"{source}: {raised.message}", hint=raised.hint) from None
            place = field_path(first["loc"]) or "the document"
            raise InputError(
                f"{source}: {place}: {first['msg']}", hint="submit with this version of staves"
            ) from None


_ADAPTER = TypeAdapter(JobSpec)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise InputError(
            f"name: {quoted(name)} is not a name",
            hint=f"use at most {LONGEST_NAME} letters, digits, '.', '_' and '-',"
            " and start with a letter or digit",
        )
    if name.isdigit():
        raise InputError(f"name: {quoted(name)} looks like a job's id", hint="add a letter")


def _check_variables(where: str, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise InputError(
                f"{where}: {quoted(name)} is no environment variable",
                hint="a name has no '=', and neither it nor the value a zero byte",
            )


def _check_text(where: str, text: str, hint: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or "\0" in text:
        raise InputError(
            f"{where}: {quoted(text)} is no Unicode text without zero bytes", hint="rename it"
        )
    if size > LONGEST_STRING:
        raise InputError(
            f"{where}: has {size} bytes, and no program can be given more than {LONGEST_STRING}",
            hint=hint,
        )


def _at_least(where: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{where}: must be at least {least}, not {value}", hint="raise it")


def _at_most(where: str, value: int, most: int) -> None:
    if value > most:
        raise InputError(f"{where}: must be at most {most}, not {quoted(value)}", hint="lower it")
