"""Single runs: what decides in them."""

from __future__ import annotations

from staves.scheduling import Decision, Fifo, View
from staves.simulation import Experiment, run
from tests.simulation import small
from tests.simulation.test_replay import CLUSTER, workload

APPLICATIONS = {"small": small.application({"a": 1.0, "b": 0.4})}


def test_a_variant_decides_in_place_of_the_policy_that_names_the_run() -> None:
    class Counted(Fifo):
        decisions = 0

        def decide(self, view: View) -> Decision:
            self.decisions += 1
            return super().decide(view)

    variant = Counted()
    done = run(Experiment("fifo", CLUSTER, workload(3, 12), APPLICATIONS, variant=variant))
    plain = run(Experiment("fifo", CLUSTER, workload(3, 12), APPLICATIONS))
    assert variant.decisions == done["summary"]["decisions"] > 0
    assert done["policy"] == "fifo"
    assert done["jobs"] == plain["jobs"]
