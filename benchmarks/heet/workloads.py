"""The public workloads: on which heet was tuned, and on which it is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.field import TRACES
from benchmarks.heet.settings import Made
from staves.errors import StavesError
from staves.hardware import Cluster, Node
from staves.simulation import SETUPS, material, sia_cluster

TUNING = ("philly/workload-1", "philly/workload-2", "saturn/workload-1", "saturn/workload-2")
"""Workloads on which what may be tuned was chosen: reported of nothing else."""


class Workloads:
    """The files of Sia's artefact, in a folder of public data.

    Args:
        data: holds `pollux/traces` and `NO-LICENCE-STATED/sia/{traces,workloads}`.

    Raises:
        StavesError: it does not.
    """

    def __init__(self, data: Path) -> None:
        sia = data / "NO-LICENCE-STATED" / "sia"
        self._profiles = [data / "pollux" / "traces", sia / "traces"]
        self._files: dict[str, Path] = {}
        for trace in TRACES:
            found = sorted((sia / "workloads" / trace).glob("workload-*.csv"))
            if not found:
                raise StavesError(f"no workload of {trace} in {data}", hint="see --data in --help")
            self._files |= {f"{trace}/{file.stem}": file for file in found}

    def reported(self, each: int | None = None, traces: Sequence[str] | None = None) -> list[str]:
        """Return the names of those that nothing was tuned on.

        Args:
            each: of each trace at most, the first ones; None for all.
            traces: of these only; None for all.
        """
        names: list[str] = []
        for trace in TRACES if traces is None else traces:
            of_trace = [name for name in self._files if name.startswith(f"{trace}/")]
            names += [name for name in of_trace if name not in TUNING][:each]
        return names

    def whole(self, name: str) -> Made:
        """Return a workload on Sia's 64 devices."""
        return material("sia-64", str(self._files[name]), self._profiles, SETUPS["sia"])

    def thinned(self, name: str, every: int) -> Made:
        """Return one in `every` of its jobs on `small_cluster`."""
        _, workload, applications = self.whole(name)
        return small_cluster(), replace(workload, requests=workload.requests[::every]), applications


def small_cluster() -> Cluster:
    """Return 8 T4, 8 RTX 2080 Ti and 4 A100: of each fewer than most jobs may have, together 20.

    Of some small clusters that on which mixed types give about as much at either load, on the
    tuning workloads.
    """
    sizes = (("t4", 2, 4), ("rtx2080ti", 1, 8), ("a100", 1, 4))
    return Cluster(
        sia_cluster().types,
        tuple(
            Node(f"{name}-{index}", {name: size})
            for name, nodes, size in sizes
            for index in range(nodes)
        ),
    )
