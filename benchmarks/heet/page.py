"""The page of the comparison: what was measured, how to read it, and all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.field import KINDS, TRACES
from benchmarks.heet import tables
from benchmarks.heet.sections import LOADS
from benchmarks.heet.workloads import TUNING

ABOUT: Mapping[str, str] = {
    "ablation": """\
Heet without one of its parts, over whole heet (own pauses, mixed types, at events): above 1 is
what the part gives. *Restarts*: every change costs the published pause. *Prices and trades*: what
decides about thousands of jobs, in place of the exact choice.""",
    "sweep": """\
Around what is set, over what is set, **on the tuning workloads only**. Differences below 2 % on
four files mean nothing: the order of ties alone moves a file by 1-3 %.""",
    "mixing": """\
8 T4, 8 RTX 2080 Ti and 4 A100, of each fewer than most jobs may have, and a part of the jobs of
each workload: heet over heet with one type a job. Rates of mixed sets are those of the step-time
model, their sync that of the worst type. The cluster was chosen on the tuning workloads, after a
first one, with 8 A100, had given less: 0.90 with one job in 8 and 0.91 with one in 4, on the first
two reported workloads each of Philly and Helios. The more of the fastest type there are, the less
others add.""",
    "robust": """\
Speeds that policies are told are off by a factor for each job and set of types, exp(x), x normal
with deviation 0.2; nodes fail at exponential times, are away for an hour in the mean, and jobs
save every 5 minutes. Heet's jobs go on with the devices that are left, Sia's restart. Three draws
each; every cost is over the same policy without errors or failures.""",
}
"""What stands above the tables of the parts."""

_HEADS: Mapping[str, str] = {
    "adaptive": KINDS["adaptive"],
    "elastic": KINDS["elastic"],
    "ablation": "What each part gives",
    "sweep": "Around what is set",
    "mixing": "Mixed types where no type fills a job",
    "robust": "Errors and failures",
}

_READING = """\
How to read the tables:

* Ratios of times, below 1 is better: geometric means over the workloads, paired, in brackets
  bootstrap 95 % intervals, which of few workloads are too narrow. Under a trace's name: its
  average completion times alone. *hours*: the mean average completion time.
* *heet*: its own pauses (5 s in place, also to other types), mixed types, a decision at every
  event. *Published pauses*: every change is a restart of 15-250 s, as for all other systems here.
  *One type*: no mixed types. *Rounds*: a decision every 60 s only, as Sia's. *Learned*: each
  system's own estimator; else all know the truth.
* *gavel, rigid jobs*: the devices and batch that the file asks for, as its paper has it; all
  others have the kind of jobs of the table.
* *every job alone*: no contention, on the best devices of one type. A bound for policies that
  grant one type.
* *worst rho*: how much later the worst-off job ends than with a fair share (Themis's finish-time
  fairness). *unfair*: the share of jobs whose rho is above 1. Both are means over the workloads."""

_LIMITS = """\
What was to be shown. The limits were set for adaptive jobs before this was measured, from what a
prototype had reached; 0.407 is 1 / 2.46, the gain that Heet's paper claims; elastic jobs are held
to the same ones."""

_MISSED = """\
Why some are missed:

* *p99 at published pauses.* Heet lets short jobs go first, and a change of a long one costs minutes
  then. p99 is the time of the second to tenth worst job of a workload: none of what may be tuned
  moved it by more than the 5 to 10 % by which ties alone move it.
* *Pollux.* The published one searches by a genetic algorithm and knows no types; ours finds the
  best value of its fitness exactly and weighs every type, which brings it near Sia. On the first
  Philly workload ours takes 0.50 h on average, and the published search (`pollux-genetic`) 0.67 h.
* *Elastic jobs* cannot trade batch for devices: what is gained by the choice of batch, for heet as
  for Sia, is not to be had. The row of jobs that run alone tells what is left for any policy."""

_WAITING = """\
## No job waits for ever

A job's value grows with the square of its waiting time, and that of a running job has a ceiling.
So a job that waits while shorter ones keep coming starts at the latest when its value on the
fewest devices it takes exceeds that of the jobs that hold these. The bound is derived in
`staves.scheduling.heet._utility`, and a property test plays random streams of short jobs against
it."""


def page(document: Mapping[str, Any]) -> str:
    """Return the page."""
    names: list[str] = document["reported"]
    lines = [
        "# Heet beside other schedulers",
        "",
        f"Written by `{document['command']}`, where DIR holds the traces of Sia and Pollux.",
        "",
        f"{len(names)} of the {document['at_hand']} reported workloads ({_numbers(names)}), on 64"
        " devices: 24 T4, 24 RTX 2080 Ti and 16 A100. The weights were chosen on"
        f" {', '.join(TUNING)}: these are in no table but that of the sweep.",
        "",
        _READING,
        "",
        *(f"{section}\n" for section in sections(document)),
        _WAITING,
    ]
    return "\n".join(lines) + "\n"


def _numbers(names: Sequence[str]) -> str:
    """Return how many workloads of each trace these are."""
    return ", ".join(
        f"{sum(name.startswith(f'{trace}/') for name in names)} of {label}"
        for trace, label in TRACES.items()
    )


def sections(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts that were measured, each with its head."""
    for name, part in document["parts"].items():
        parts = [f"## {_HEADS[name]}"]
        if part["workloads"] != document["reported"]:
            parts.append(f"On fewer workloads: {', '.join(part['workloads'])}.")
        if name in ABOUT:
            parts.append(ABOUT[name])
        if "ratios" in part:
            parts.append(tables.of_ratios(part["ratios"], sort="gates" in part))
        if "gates" in part:
            parts += [_LIMITS, tables.of_gates(part["gates"])]
            if name == "elastic" or "elastic" not in document["parts"]:
                parts.append(_MISSED)
        if "costs" in part:
            parts.append(tables.of_costs(part))
        if "loads" in part:
            for load, ratios in part["loads"].items():
                parts += [f"{load.capitalize()}:", tables.of_ratios(ratios)]
            held = "holds" if part["holds"] else "does **not** hold"
            to_show = f"at most {part['most']:.2f} was to be shown: that {held}"
            parts.append(f"With one job in {LOADS[0]}, {to_show}.")
        yield "\n\n".join(parts)
