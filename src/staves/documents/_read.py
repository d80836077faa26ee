"""Read a YAML or JSON file into a pydantic model; say in one line what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from staves.documents._suggest import suggestion
from staves.errors import InputError


class Document(BaseModel):
    """Base of everything people write: unknown keys and non-finite numbers are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)


M = TypeVar("M", bound=BaseModel)


def read(path: Path | str, model: type[M]) -> M:
    """Read the YAML or JSON file at `path` (by its ending) as `model`.

    Raises:
        InputError: the file is absent, unreadable, malformed or does not fit the model. One line:
            file, path of the field, what is wrong; and a hint.
    """
    text = read_text(path)
    return parse(text, model, source=str(path), json_only=Path(path).suffix.lower() == ".json")


def read_text(path: Path | str) -> str:
    """Return the text of the file at `path`. Raises InputError as `read` does."""
    path = Path(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, not a file", hint="name a file in it") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8", hint="save the file as UTF-8 text"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def parse(text: str, model: type[M], *, source: str, json_only: bool = False) -> M:
    """Parse `text` as `model`; `source` names it in errors. Raises as `read` does."""
    value = _from_json(text, source) if json_only else _from_yaml(text, source)
    if not isinstance(value, dict):
        kind = "is empty" if value is None else f"holds a {type(value).__name__}"
        raise InputError(
            f"{source}: {kind}, not a mapping of keys",
            hint="keys: " + ", ".join(model.model_fields),
        )
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _one_line(error, model, source) from None


def _from_json(text: str, source: str) -> object:
    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise InputError(f"{source}: the key {key!r} stands twice", hint="keep one of them")
            result[key] = value
        return result

    try:
        return json.loads(text, object_pairs_hook=refuse_duplicates)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}",
            hint="look at that place, and just before it",
        ) from None
    except RecursionError:
        raise InputError(f"{source}: not JSON: nested too deep") from None


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep)


def _from_yaml(text: str, source: str) -> object:
    try:
        return yaml.load(text, Loader=_Loader)  # a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = " ".join((error.problem or error.context or "malformed").split())
        raise InputError(
            f"{source}{place}: not YAML: {problem}", hint="look at that line, and the one above"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split()) or "nested too deep"
        raise InputError(f"{source}: not YAML: {problem}") from None


def _one_line(error: ValidationError, model: type[BaseModel], source: str) -> InputError:
    """Turn the first of pydantic's complaints into one line, with the path and a hint."""
    problems = error.errors(include_url=False)
    # An unknown key explains most other complaints (a missing one, usually): it goes first.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    location = problem["loc"]
    hint: str | None = None
    if problem["type"] == "extra_forbidden":
        *parents, key = location
        hint = suggestion(str(key), _keys_at(model, tuple(parents)))
        message = "unknown key"
    elif problem["type"] == "missing":
        message = "is missing"
        hint = "add this key"
    else:
        message = problem["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
    more = f" [and {len(problems) - 1} more]" if len(problems) > 1 else ""
    where = field_path(location)
    return InputError(f"{source}: {where + ': ' if where else ''}{message}{more}", hint=hint)


def field_path(location: tuple[int | str, ...]) -> str:
    """Return `devices[0].forward.fixed` for ('devices', 0, 'forward', 'fixed')."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that `model` knows at `location`, following lists, mappings and unions."""
    kind: Any = model
    for step in location:
        kind = _strip(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(str(step))
            if field is None:
                return []
            kind = field.annotation
        else:  # list[X], tuple[X, ...] or dict[str, X]
            arguments = [a for a in get_args(kind) if a is not Ellipsis]
            kind = arguments[-1] if arguments else None
    kind = _strip(kind)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _strip(kind: Any) -> Any:
    """Return X for Optional[X]."""
    if get_origin(kind) in (Union, UnionType):
        return next((a for a in get_args(kind) if a is not type(None)), kind)
    return kind
