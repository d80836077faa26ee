"""How many devices of which type a manifest asks for: a number that does not change."""

from __future__ import annotations

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.kubernetes._workload import Group, object_name

WORKERS = "worker"
"""The group of devices whose type is left to the cluster."""


def groups_of(
    count: str | None,
    *,
    minimum: int,
    maximum: int | None,
    types: tuple[str, ...] | None,
    mix: bool,
) -> tuple[Group, ...]:
    """Return the devices that a job is given.

    Args:
        count: `4` (of any of its types), or `a100=2,t4=4`; None: `minimum` of any.
        minimum: the job's least number of devices.
        maximum: its most; None: no bound.
        types: those that it may use; None: all.
        mix: whether it may use several types at a time.

    Raises:
        InputError: malformed, out of the job's bounds, or not of its types.
    """
    text = str(minimum) if count is None else count
    groups = _by_type(text, types) if "=" in text else (Group(WORKERS, types or (), _whole(text)),)
    total = sum(group.count for group in groups)
    if total < minimum:
        raise InputError(
            f"--count: {total} devices are below the job's devices.min ({minimum})",
            hint="ask for more",
        )
    if maximum is not None and total > maximum:
        raise InputError(
            f"--count: {total} devices are above the job's devices.max ({maximum})",
            hint="ask for fewer",
        )
    if not mix:
        _check_unmixed(groups, total)
    if len(groups) == 1 and len(groups[0].types) == 1:
        (only,) = groups[0].types
        return (Group(object_name(only), (only,), total),)
    return groups


def _by_type(text: str, types: tuple[str, ...] | None) -> tuple[Group, ...]:
    groups: list[Group] = []
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if not name:
            raise InputError(
                f"--count: {quoted(part)} names no type", hint="write it like a100=2,t4=4"
            )
        if types is not None and name not in types:
            raise InputError(
                f"--count: the job does not use {quoted(name)}", hint=suggestion(name, types)
            )
        if any(group.types == (name,) for group in groups):
            raise InputError(f"--count: {quoted(name)} stands twice", hint="keep one of them")
        groups.append(Group(object_name(name), (name,), _whole(number)))
    labels = [group.name for group in groups]
    if len(set(labels)) < len(labels):
        raise InputError(
            f"--count: two of {', '.join(group.types[0] for group in groups)} have one name in a"
            " cluster",
            hint="write one of them otherwise",
        )
    return tuple(groups)


def _check_unmixed(groups: tuple[Group, ...], total: int) -> None:
    if len(groups) > 1:
        raise InputError(
            "--count: the job uses one type at a time (devices.mix: forbid)", hint="name one"
        )
    if len(groups[0].types) != 1 and total > 1:
        raise InputError(
            "devices.mix: forbid: a cluster that chooses the type may choose several",
            hint=f"name one: --count {(groups[0].types or ('a100',))[0]}={total}",
        )


def _whole(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 6 or int(text) < 1:
        raise InputError(
            f"--count: {quoted(text)} is not a number of devices",
            hint="write it like 4, or like a100=2,t4=4",
        )
    return int(text)
