"""Policies by name: the product's own, and those that other packages bring."""

from __future__ import annotations

from importlib.metadata import entry_points

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

    Raises:
        StavesError: an entry point does not load, is no policy, or takes a name that is taken.
    """
    found: dict[str, type[Policy]] = {own.name: own for own in _OWN}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        where = f"the policy {quoted(point.name)} ({point.value})"
        try:
            loaded = point.load()
        except Exception as error:
            raise StavesError(
                f"{where} does not load: {error}", hint="repair or remove its package"
            ) from error
        if not (isinstance(loaded, type) and issubclass(loaded, Policy)):
            raise StavesError(
                f"{where} is no policy", hint="name a class derived from scheduling.Policy"
            )
        if point.name in found:
            raise StavesError(f"{where} takes a name that is taken", hint="give it another name")
        found[point.name] = loaded
    return found


def policy(name: str) -> Policy:
    """Return a new policy of that name, with its defaults.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    known = policies()
    if name not in known:
        raise InputError(f"unknown policy {quoted(name)}", hint=suggestion(name, known))
    return known[name]()
