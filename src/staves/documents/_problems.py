"""One line for what pydantic finds wrong: the path to the field, what is wrong, and a hint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from staves.documents._suggest import suggestion
from staves.errors import InputError, quoted

Location: TypeAlias = tuple[int | str, ...]

_LONGEST_KEY = 60

_WANTED = {
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "list_type": "a list",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge", "raise it"),
    "greater_than": ("above", "gt", "raise it"),
    "less_than_equal": ("at most", "le", "lower it"),
    "less_than": ("below", "lt", "lower it"),
}


def one_line(
    error: ValidationError, model: type[BaseModel], document: object, source: str
) -> InputError:
    """Return the first of pydantic's complaints about `document` as an error of one line."""
    problems = [(_place(p, document), p) for p in error.errors(include_url=False)]
    place, problem = _first(problems)
    message, hint = _describe(problem, place, model)
    if problem["type"] not in ("extra_forbidden", "missing"):
        # Each branch of a union complains for itself, about the same place.
        alike = [_describe(other, place, model)[0] for at, other in problems if at == place]
        message = "; or ".join(dict.fromkeys(alike))
    others = {at for at, _ in problems if at != place[: len(at)]}
    more = f" [and {len(others)} more]" if others else ""
    where = field_path(place)
    return InputError(f"{source}: {where + ': ' if where else ''}{message}{more}", hint=hint)


def _first(problems: list[tuple[Location, ErrorDetails]]) -> tuple[Location, ErrorDetails]:
    """Return the complaint that explains most."""
    for place, problem in problems:  # an unknown key is why another one is missing, usually
        if problem["type"] == "extra_forbidden":
            return place, problem
    first = problems[0][0]
    # Where one branch of a union got further into the value than another, it was the one meant.
    deeper = (p for p in problems if p[0] != first and p[0][: len(first)] == first)
    return next(deeper, problems[0])


def field_path(location: Location) -> str:
    """Return `devices[0].forward.fixed` for ('devices', 0, 'forward', 'fixed')."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = step if step.isprintable() and 0 < len(step) <= _LONGEST_KEY else quoted(step)
            path += f".{name}" if path else name
    return path


def kind_of(value: object) -> str:
    """Return what `value` is, in the words of people who write YAML."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value)


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of `model` as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _describe(
    problem: ErrorDetails, place: Location, model: type[BaseModel]
) -> tuple[str, str | None]:
    kind, value = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        return "unknown key", suggestion(str(place[-1]), _keys_at(model, place[:-1]))
    if kind == "missing":
        return "is missing", "add this key"
    if kind in _WANTED:
        hint = "put it in quotes" if kind == "string_type" and _scalar(value) else None
        if kind.startswith("model"):
            hint = "keys: " + ", ".join(_keys_at(model, place))
        if kind in ("int_type", "float_type") and _numeric(value):
            hint = "take the quotes off"
        return f"must be {_WANTED[kind]}, not {kind_of(value)}", hint
    if kind in _BOUNDS:
        words, bound, hint = _BOUNDS[kind]
        return f"must be {words} {_plain(problem['ctx'][bound])}, not {kind_of(value)}", hint
    if kind == "invalid_key":
        return "a key must be text", "put the key in quotes"
    if kind == "finite_number":
        return "must be finite", "give a number that is not nan, infinite or too large for one"
    if kind == "literal_error":
        return f"must be {problem['ctx']['expected']}, not {kind_of(value)}", "choose one of them"
    if kind == "string_unicode":
        return "must be text, not half of a character", "take the lone surrogate out"
    if kind == "string_too_short":
        return "must not be empty", "write a name"
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, InputError):
        return raised.message, raised.hint
    message = problem["msg"].removeprefix("Value error, ")
    return " ".join((message[:1].lower() + message[1:]).split()), None


def _plain(bound: float) -> str:
    return f"{bound:.0f}" if bound == int(bound) and abs(bound) < 1e16 else str(bound)


def _scalar(value: object) -> bool:
    return value is not None and not isinstance(value, (Mapping, list, tuple))


def _numeric(value: object) -> bool:
    if not isinstance(value, str) or "_" in value:
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def _place(problem: ErrorDetails, document: object) -> Location:
    """Return pydantic's location without the steps that are not in the document.

    Those name the branch of a union (`int`), a validator (`function-before[...]`) or a `[key]`.
    """
    place: list[int | str] = []
    value: Any = document
    location = problem["loc"]
    for number, step in enumerate(location):
        if _holds(value, step):
            value = value[step]
        elif problem["type"] != "missing" or number < len(location) - 1:
            continue
        place.append(step)
    return tuple(place)


def _holds(value: object, step: int | str) -> bool:
    if isinstance(value, (list, tuple)):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, Mapping) and step in value


def _keys_at(model: type[BaseModel], place: Location) -> list[str]:
    """Return the keys that `model` knows at `place`, following lists, mappings and unions."""
    kinds: list[Any] = [model]
    for step in place:
        kinds = [inner for kind in kinds for inner in _alternatives(_inside(kind, step))]
    keys = [key for kind in kinds if _is_model(kind) for key in keys_of(kind)]
    return list(dict.fromkeys(keys))


def _inside(kind: Any, step: int | str) -> Any:
    """Return the type of what stands at `step` of a value of type `kind`; None if unknown."""
    if _is_model(kind):
        for name, field in kind.model_fields.items():
            if step in (name, field.alias):
                return field.annotation
        return None
    arguments = [argument for argument in get_args(kind) if argument is not Ellipsis]
    return arguments[-1] if arguments else None  # list[X], tuple[X, ...], dict[str, X]


def _alternatives(kind: Any) -> Iterable[Any]:
    """Return the branches of a union, each without its annotations."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [inner for branch in get_args(kind) for inner in _alternatives(branch)]
    return [kind]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
