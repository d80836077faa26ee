"""The options of a loader of training data: those of torch's, less what Staves decides."""

from __future__ import annotations

from inspect import signature
from typing import Any

from torch.utils.data import DataLoader

from staves.documents import suggestion
from staves.errors import InputError, quoted

_OURS = {
    "batch_size": "the total batch is {batch}, and Staves splits it",
    "sampler": "Staves samples: every sample once an epoch, over all devices",
    "batch_sampler": "Staves samples: every sample once an epoch, over all devices",
}
_KNOWN = {*signature(DataLoader.__init__).parameters} - {"self", "dataset", *_OURS} | {"length"}


def check_data(caller: str, dataset: object, *, instead: str) -> None:
    """Refuse a loader in place of a data set; `instead` is a call that would do.

    Raises:
        InputError: it is a DataLoader.
    """
    if isinstance(dataset, DataLoader):
        raise InputError(
            f"{caller}: this is a DataLoader",
            hint=f"give its data set and options: {instead}",
        )


def allowed_options(caller: str, options: dict[str, Any], *, batch: str) -> dict[str, Any]:
    """Return the options without those that say nothing.

    Args:
        caller: who was given them, for messages.
        options: by name.
        batch: how the total batch is given there.

    Raises:
        InputError: one that Staves decides is given, or one that torch's DataLoader has not.
    """
    left = dict(options)
    for name, reason in _OURS.items():
        if left.pop(name, None) is not None:
            raise InputError(f"{caller}: {name} cannot be given", hint=reason.format(batch=batch))
    for name in left:
        if name not in _KNOWN:
            raise InputError(
                f"{caller}: there is no option {quoted(name)}", hint=suggestion(name, _KNOWN)
            )
    return left


def torch_loader(caller: str, dataset: Any, **options: Any) -> DataLoader[Any]:
    """Return torch's loader.

    Raises:
        InputError: torch refuses the options.
    """
    try:
        return DataLoader(dataset, **options)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{caller}: torch's DataLoader refuses these options: {error}",
            hint="see torch.utils.data.DataLoader",
        ) from error
