"""Settings on workloads: what has been run already is kept, the rest is run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.heet.settings import Made, Setting
from benchmarks.kept import Kept
from staves.errors import StavesError
from staves.scheduling import JobKind
from staves.simulation import Experiment, run_all


class Runs:
    """Runs by table, setting, workload and seed.

    Args:
        kept: where they are and come to be, one line of JSON each; None: nowhere.
        processes: side by side.
    """

    def __init__(self, kept: Path | None = None, processes: int = 1) -> None:
        self._processes = processes
        self._kept = Kept(
            kept, lambda run: (run["table"], run["setting"], run["workload"], run["seed"])
        )

    def of(
        self,
        table: str,
        settings: Sequence[Setting],
        workloads: Sequence[str],
        made: Callable[[str], Made],
        kind: JobKind = "adaptive",
    ) -> list[dict[str, Any]]:
        """Return the runs of all settings on all workloads, each as the policy of its setting.

        Args:
            table: under which they are kept: the cluster and the kind of jobs.
            settings: the rows.
            workloads: names.
            made: what to run a workload of that name on.
            kind: of jobs.

        Raises:
            StavesError: a run left jobs unfinished, an average over the others would flatter it.
        """
        for name in workloads:
            absent = [one for one in settings if not self._has(table, one, name)]
            if absent:
                self._run(table, absent, made(name), kind)
        found = [
            self._kept[table, one.name, name, seed]
            for one in settings
            for name in workloads
            for seed in range(one.seeds)
        ]
        return [{**run, "policy": run["setting"]} for run in found]

    def _has(self, table: str, setting: Setting, workload: str) -> bool:
        return all(
            (table, setting.name, workload, seed) in self._kept for seed in range(setting.seeds)
        )

    def _run(self, table: str, settings: Sequence[Setting], made: Made, kind: JobKind) -> None:
        names: list[str] = []
        experiments: list[Experiment] = []
        for setting in settings:
            for experiment in setting.experiments(made, kind):
                names.append(setting.name)
                experiments.append(experiment)
        for number, run in run_all(experiments, self._processes):
            told = run["summary"]
            who = f"{table}, {names[number]}, {run['workload']}"
            if told["finished"] < told["jobs"]:
                raise StavesError(
                    f"{who}: {told['jobs'] - told['finished']} jobs are unfinished",
                    hint="an average over the others would flatter it",
                )
            self._kept.add({**run, "table": table, "setting": names[number]})
            seconds = told["cpu_seconds"]
            print(f"benchmarks: {who}: {seconds:.1f} s", file=sys.stderr, flush=True)
