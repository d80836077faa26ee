"""Policies by name: the product's own, and those that other packages bring."""

from __future__ import annotations

import inspect
import logging
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points

from staves.documents import suggestion
from staves.errors import InputError, StavesError, quoted
from staves.scheduling._afs import Afs
from staves.scheduling._allox import Allox
from staves.scheduling._elasticflow import ElasticFlow
from staves.scheduling._fifo import Fifo
from staves.scheduling._heet_paper import HeetPaper
from staves.scheduling._lyra import Lyra
from staves.scheduling._optimus import Optimus
from staves.scheduling._policy import Policy
from staves.scheduling._pollux import Pollux
from staves.scheduling._pollux_genetic import PolluxGenetic
from staves.scheduling._shockwave import Shockwave
from staves.scheduling._sia import Sia
from staves.scheduling._srtf import Srtf
from staves.scheduling._themis import Themis
from staves.scheduling._tiresias import Tiresias
from staves.scheduling.gavel import Gavel, GavelFtf, GavelMakespan, GavelMaxMin
from staves.scheduling.heet import Heet

GROUP = "staves.policies"
"""Entry points of this group name classes of policies: `name = "package.module:Class"`."""

logger = logging.getLogger(__name__)

_REPAIR = "repair or remove its package"

_OWN: tuple[type[Policy], ...] = (
    Fifo,
    Srtf,
    Tiresias,
    Afs,
    Optimus,
    Gavel,
    GavelMaxMin,
    GavelMakespan,
    GavelFtf,
    Themis,
    Pollux,
    PolluxGenetic,
    Sia,
    Shockwave,
    ElasticFlow,
    Lyra,
    Allox,
    HeetPaper,
    Heet,
)


def policies() -> dict[str, type[Policy]]:
    """Return every policy by its name; those of other packages come from their entry points.

    One that cannot be used is left out: `unusable` says why, and `policy` to who asks for it.
    """
    return {name: found for name, found in _all().items() if isinstance(found, type)}


def unusable() -> dict[str, StavesError]:
    """Return why an entry point cannot be used, by its name: it does not load, is no policy, has
    another name than its policy, or takes a name that is taken (then by its class)."""
    return {name: found for name, found in _all().items() if not isinstance(found, type)}


def policy(name: str) -> Policy:
    """Return a new policy of that name, with its defaults.

    Raises:
        InputError: there is none; the hint names the nearest.
        StavesError: it is another package's, and cannot be used.
    """
    known = _all()
    if name not in known:
        raise InputError(f"unknown policy {quoted(name)}", hint=suggestion(name, known))
    found = known[name]
    if isinstance(found, StavesError):
        raise found
    try:
        return found()
    except Exception as error:
        raise StavesError(
            f"the policy {quoted(name)} is not made: {type(error).__name__}: {error}",
            hint="it is made without arguments; see docs/writing-a-policy.md",
        ) from error


def _all() -> dict[str, type[Policy] | StavesError]:
    found: dict[str, type[Policy] | StavesError] = {own.name: own for own in _OWN}
    for point in sorted(_points(), key=lambda point: point.name):
        if point.name not in found:
            found[point.name] = _loaded(point)
            continue
        where = f"the policy {quoted(point.name)} ({point.value})"
        # Under what it is: by its name another is asked for.
        found[point.value] = StavesError(
            f"{where} takes a name that is taken", hint="give it another name"
        )
    return found


def _points() -> list[EntryPoint]:
    try:
        return list(entry_points(group=GROUP))
    except Exception:  # one package's damaged metadata
        return [point for each in distributions() for point in _points_of(each)]


def _points_of(distribution: Distribution) -> list[EntryPoint]:
    try:
        return list(distribution.entry_points.select(group=GROUP))
    except Exception as error:
        name = getattr(distribution, "name", None) or "a package without a name"
        logger.warning("the entry points of %s are damaged: %s", name, error)
        return []


def _loaded(point: EntryPoint) -> type[Policy] | StavesError:
    where = f"the policy {quoted(point.name)} ({point.value})"
    try:
        loaded = point.load()
    except Exception as error:
        return StavesError(f"{where} does not load: {error}", hint=_REPAIR)
    if not (isinstance(loaded, type) and issubclass(loaded, Policy)):
        return StavesError(
            f"{where} is no policy", hint="name a class derived from scheduling.Policy"
        )
    own = getattr(loaded, "name", None)
    if own != point.name:
        return StavesError(
            f"{where} calls itself {quoted(own)}", hint="its `name` must be its entry point's"
        )
    if inspect.isabstract(loaded):
        return StavesError(f"{where} has no method `decide`", hint=_REPAIR)
    return loaded
