"""Read a YAML or JSON file into a pydantic model; say in one line what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from staves.documents._json import duplicate_key, place_of
from staves.documents._problems import keys_of, kind_of, one_line
from staves.documents._yaml import LONGEST_NUMBER, Loader, Refused
from staves.errors import InputError, quoted


class Document(BaseModel):
    """Base of everything people write: unknown keys and non-finite numbers are errors.

    Types are strict: `"3"` is no number and `1` no truth value. A list is no tuple either; a field
    that wants a tuple is an `Items[X]`.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)


T = TypeVar("T")

Items = Annotated[tuple[T, ...], Strict(False)]
"""A tuple of any length, written as a list; its items stay as strict as their own type."""

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
        return path.read_text(encoding="utf-8-sig")  # some editors put a byte-order mark
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, not a file", hint="name a file in it") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8", hint="save the file as UTF-8 text"
        ) from None
    except ValueError as error:  # a zero byte in the name
        raise InputError(f"{path}: is no name of a file: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def parse(text: str, model: type[M], *, source: str, json_only: bool = False) -> M:
    """Parse `text` as `model`; `source` names it in errors. Raises as `read` does."""
    value = _from_json(text, source) if json_only else _from_yaml(text, source)
    if not isinstance(value, dict):
        kind = "is empty" if value is None else f"holds {kind_of(value)}"
        raise InputError(
            f"{source}: {kind}, not a mapping of keys", hint="keys: " + ", ".join(keys_of(model))
        )
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise one_line(error, model, value, source) from None


def _from_json(text: str, source: str) -> object:
    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                place = place_of(text, duplicate_key(text))
                problem = f"{source}:{place}: the key {quoted(key)} stands twice"
                raise InputError(problem, hint="keep one of them")
            result[key] = value
        return result

    def whole(digits: str) -> int:
        if len(digits) > LONGEST_NUMBER:
            place = place_of(text, text.find(digits))
            problem = f"{source}:{place}: a number of {len(digits)} digits"
            raise InputError(problem, hint="shorten it")
        return int(digits)

    try:
        return json.loads(text, object_pairs_hook=refuse_duplicates, parse_int=whole)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}",
            hint="look at that place, and just before it",
        ) from None
    except RecursionError:
        raise InputError(f"{source}: not JSON: nested too deep", hint="nest it less") from None


def _from_yaml(text: str, source: str) -> object:
    try:
        return yaml.load(text, Loader=Loader)  # a subclass of SafeLoader
    except Refused as error:
        place = f"{source}:{error.mark.line + 1}:{error.mark.column + 1}"
        raise InputError(f"{place}: {error.problem}", hint=error.hint) from None
    except yaml.MarkedYAMLError as error:
        found = error.problem_mark or error.context_mark
        at = f":{found.line + 1}:{found.column + 1}" if found else ""
        problem = " ".join((error.problem or error.context or "malformed").split())
        raise InputError(
            f"{source}{at}: not YAML: {problem}", hint="look at that line, and the one above"
        ) from None
    except yaml.reader.ReaderError as error:
        place = place_of(text, error.position)
        raise InputError(
            f"{source}:{place}: not YAML: the control character {quoted(text[error.position])}",
            hint="take it out, or write it as an escape in double quotes",
        ) from None
    except RecursionError:
        raise InputError(f"{source}: not YAML: nested too deep", hint="nest it less") from None
