"""Random states as pure functions of the place in the data, never carried by a rank (rule 18)."""

from __future__ import annotations

import random
import struct
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, TensorDataset

_WORDS = struct.Struct("<QLQ")


def seed_everything(*place: int) -> None:
    """Seed Python's, numpy's and torch's generators from a place such as (seed, epoch, sample)."""
    # A hash of the place, not numpy's SeedSequence: this runs in every step and for every sample.
    packed = struct.pack(f"<{len(place)}Q", *(p & (2**64 - 1) for p in place))
    of_python, of_numpy, of_torch = _WORDS.unpack(blake2b(packed, digest_size=_WORDS.size).digest())
    random.seed(of_python)
    np.random.seed(of_numpy)  # noqa: NPY002  # the generator that user code draws from
    # `torch.manual_seed` asks every kind of device there might be, which takes far longer.
    torch.default_generator.manual_seed(of_torch)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(of_torch)


class RandomStream:
    """A course of random numbers of its own, which goes on where it was left (a context manager).

    What is drawn outside of it neither sees it nor moves it. Seeded from a place; Python's, numpy's
    and torch's generators of the host.
    """

    def __init__(self, *place: int) -> None:
        self._place = place
        self._own: tuple[Any, ...] | None = None
        self._outside: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        self._outside = _states()
        if self._own is None:
            seed_everything(*self._place)
        else:
            _set_states(self._own)

    def __exit__(self, *_: object) -> None:
        self._own = _states()
        _set_states(self._outside)


def _states() -> tuple[Any, ...]:
    legacy = np.random.get_state()  # noqa: NPY002  # the generator that user code draws from
    return random.getstate(), legacy, torch.default_generator.get_state()


def _set_states(states: tuple[Any, ...]) -> None:
    own, legacy, of_torch = states
    random.setstate(own)
    np.random.set_state(legacy)  # noqa: NPY002  # likewise
    torch.default_generator.set_state(of_torch)


class SampleSeeded(Dataset[Any]):
    """A data set whose augmentation depends on (seed, epoch, sample) alone.

    Whichever rank or loader worker loads a sample, in whatever split, it comes out alike. Asked by
    (epoch, index) pairs.
    """

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        self.dataset, self._seed = dataset, seed

    def __getitem__(self, place: tuple[int, int]) -> Any:
        epoch, index = place
        seed_everything(self._seed, epoch, index)
        return self.dataset[index]

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]


def draws_at_random(dataset: Dataset[Any]) -> bool:
    """Whether loading a sample may draw random numbers; tensors are only indexed."""
    return not isinstance(dataset, TensorDataset)
