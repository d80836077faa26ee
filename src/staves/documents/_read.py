"""Read a YAML or JSON file into a pydantic model; say in one line what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from staves.documents._problems import keys_of, kind_of, one_line
from staves.errors import InputError


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
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, say
        problem = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{source}: not JSON: {problem}") from None


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which refuses a key that stands twice, and knows 1e-3 for a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1, which the library reads, takes 1e-3 for text: it wants 1.0e-3.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z", re.ASCII),
    list("-+.0123456789"),
)


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
        problem = "nested too deep" if isinstance(error, RecursionError) else str(error)
        problem = " ".join(problem.split())
        raise InputError(f"{source}: not YAML: {problem}") from None
