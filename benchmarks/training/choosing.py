"""How learning rates and targets were picked: plain DDP at the reference batch, and nothing else.

`python -m benchmarks.training.choosing --workload images --rate 0.01 --rate 0.02` prints the loss
of held-out data and the noise scale along each run, on seeds that the comparison does not use.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import replace

import torch

from benchmarks import command
from benchmarks.training.declared import WORKLOADS
from benchmarks.training.runs import ANY, trainer
from benchmarks.training.systems import DDP
from staves.errors import InputError
from staves.training._arguments import positive_integer, seed_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.choosing")
    parser.add_argument("--workload", required=True, choices=[w.name for w in WORKLOADS])
    parser.add_argument("--rate", action="append", type=float, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--times", type=int, default=1, help="the reference batch")
    options = parser.parse_args()
    for rate in options.rate:
        if not 0 < rate < math.inf:
            raise InputError(f"--rate: {rate} is not positive and finite", hint="such as 0.01")
    positive_integer("--steps", options.steps, "count steps")
    positive_integer("--times", options.times, "1 is the reference batch itself")
    seed_of("--seed", options.seed)
    torch.set_num_threads(1)
    declared = next(w for w in WORKLOADS if w.name == options.workload)
    for rate in options.rate:
        workload = replace(declared, learning_rate=rate, target=-math.inf, most_steps=options.steps)
        started = time.process_time()
        run, evaluator = trainer(
            workload, options.seed, ANY, DDP(options.times * workload.reference)
        )
        scales: list[float] = []
        for step in run.steps(options.steps):
            evaluator.after(step)
            assert run.noise is not None
            scales.append(run.noise.scale)
            if evaluator.over:
                break
        cpu = time.process_time() - started
        print(f"{workload.name}, rate {rate}, {cpu:.1f} s of CPU", flush=True)
        for progress, loss in evaluator.curve[::4]:
            place = min(len(scales), max(1, round(progress)))
            near = statistics.median(scales[max(0, place - 100) : place])
            print(f"{progress:8.0f} {loss:8.4f}   noise scale {near:8.0f}", flush=True)


if __name__ == "__main__":
    command.run("benchmarks.training.choosing", main)
