"""The function API inside plain DistributedDataParallel: no `staves.init`, no launcher of ours.

    torchrun --nproc-per-node 3 examples/plain_ddp.py

A communication hook of this script weighs gradients and notes times. From those `staves.steptime`
fits the devices and splits the batch, and `staves.convergence` estimates the noise scale and
chooses the batch. Ranks other than 0 stand in for slower devices: they sleep for each sample.
docs/function-api.md explains it step by step.
"""

# No `from __future__ import annotations`: torch wants the hook's annotations as objects.
import argparse
import json
import time
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from staves.convergence import best_batch, gain, noise_scale
from staves.steptime import (
    Communication,
    Device,
    StepTimeModel,
    even_split,
    fit_communication,
    fit_line,
    integer_split,
)

Norms = tuple[float, float]  # tr Sigma and |G|^2 as one step estimates them

SAMPLES, FEATURES, CLASSES = 4096, 32, 8
WARM_UP, PROBE = 3, 8
LEARNING_RATE = 0.05
FIXED = 0.02  # seconds a step, beside those for each sample


@dataclass
class Measured:
    """One rank's times of one step, in seconds, with that many samples."""

    samples: int
    forward: float  # data, update and forward pass
    backward: float  # to the last bucket's readiness
    ready: list[float]  # share of the backward pass at which each bucket was ready
    wire: list[float]  # each bucket on the wire


@dataclass
class Hook:
    """Weighs each gradient bucket with b_i / B, sums it over the ranks, and notes times."""

    share: float = 1.0
    square_norm: float = 0.0  # of this rank's own mean gradient
    ready: list[float] = field(default_factory=list)
    done: dict[int, float] = field(default_factory=dict)

    def begin(self, share: float) -> None:
        self.share, self.square_norm = share, 0.0
        self.ready, self.done = [], {}

    def reduce(self, state: object, bucket: GradBucket) -> Future[torch.Tensor]:
        buffer = bucket.buffer()
        place = len(self.ready)
        self.ready.append(time.perf_counter())
        self.square_norm += float(buffer.square().sum())
        buffer.mul_(self.share)
        work = dist.all_reduce(buffer, async_op=True)
        assert work is not None
        done = self.done

        def reduced(future: Future[list[torch.Tensor]]) -> torch.Tensor:
            done[place] = time.perf_counter()
            return future.value()[0]

        summed: Future[torch.Tensor] = work.get_future().then(reduced)
        return summed

    def times(self, samples: int, start: float, backward: float) -> Measured:
        """Return what was noted of a step that began at `start`, its backward pass at
        `backward`."""
        length = self.ready[-1] - backward
        free, wire = 0.0, []
        for place, ready in enumerate(self.ready):
            wire.append(max(0.0, self.done[place] - max(ready, free)))
            free = self.done[place]
        shares = [(ready - backward) / length for ready in self.ready]
        return Measured(samples, backward - start, length, shares, wire)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, CLASSES))


def dataset() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    teacher = torch.randn(FEATURES, CLASSES, generator=generator)
    noise = 16 * torch.randn(SAMPLES, CLASSES, generator=generator)
    return inputs, (inputs @ teacher + noise).argmax(1)


def rows_of(cursor: int, count: int) -> torch.Tensor:
    """Return the next samples of the one order that all ranks share."""
    return (cursor + torch.arange(count)) % SAMPLES


def spread(first: list[int], seconds: list[float]) -> list[int]:
    """Return a second split of the same batch, by speed: two batches a device make its line."""
    speed = np.array(first) / np.array(seconds)
    second = np.maximum(1, np.floor(sum(first) * speed / speed.sum())).astype(int)
    second[np.argmax(speed)] += sum(first) - second.sum()
    if second.tolist() == first:  # alike devices: the first takes a quarter more, off the last
        moved = max(1, first[-1] // 4)
        second[0] += moved
        second[-1] -= moved
    return [int(each) for each in second]


def fit(records: list[list[Measured]], names: list[str]) -> StepTimeModel:
    """Return the step-time model of all ranks' records, (ranks, steps)."""
    devices = tuple(
        Device(
            name,
            "cpu",
            fit_line([r.samples for r in own], [r.forward for r in own]),
            fit_line([r.samples for r in own], [r.backward for r in own]),
            min_batch=1,
        )
        for name, own in zip(names, records, strict=True)
    )
    steps = range(len(records[0]))
    wire = [[own[step].wire for own in records] for step in steps]
    ready = np.median([r.ready for own in records for r in own], axis=0)
    ready = np.maximum.accumulate(np.clip(ready, 0, 1))
    ready[-1] = 1.0
    seconds = fit_communication(wire)
    return StepTimeModel(devices, Communication(tuple(ready.tolist()), tuple(seconds.tolist())))


@dataclass
class Plan:
    """What rank 0 decides and tells."""

    split: list[int]
    learning_rate: float = LEARNING_RATE


class Decider:
    """Rank 0's: measure, split, and then choose the batch."""

    def __init__(self, reference: int, max_batch: int, names: list[str]) -> None:
        self.reference, self.max_batch, self.names = reference, max_batch, names
        self.records: list[list[Measured]] = [[] for _ in names]
        self.noise: list[float] = []
        self.gradient_square: list[float] = []
        self.figures: dict[str, object] = {}

    def take(self, records: list[list[Measured]], norms: list[Norms]) -> None:
        """Take in every rank's records since the last decision, and the norms of each step."""
        for own, new in zip(self.records, records, strict=True):
            own.extend(new)
        self.noise += [noise for noise, _ in norms]
        self.gradient_square += [square for _, square in norms]

    def next(self, plan: Plan, phase: int) -> Plan:
        if phase == 0:  # the second probe
            typical = [float(np.median([r.forward + r.backward for r in o])) for o in self.records]
            return Plan(spread(plan.split, typical))
        model = fit(self.records, self.names)
        if phase == 1:  # the optimal split of the same batch
            best, even = integer_split(model, self.reference), even_split(model, self.reference)
            self.figures |= {
                "split": list(best.local_batches),
                "predicted_step_seconds": best.step_seconds,
                "even_step_seconds": even.step_seconds,
            }
            return Plan(list(best.local_batches))
        # The ratio of means: the mean of ratios would be biased.
        noise, square = float(np.mean(self.noise)), float(np.mean(self.gradient_square))
        scale = noise / square if square > 0 else float("inf")
        chosen = best_batch(model, scale, self.reference, self.max_batch)
        factor = gain(scale, chosen.batch, self.reference)  # AdaScale's rule, for SGD
        self.figures |= {
            "noise_scale": scale,
            "batch": chosen.batch,
            "goodput": chosen.goodput,
            "learning_rate_factor": factor,
        }
        return Plan(list(chosen.split.local_batches), LEARNING_RATE * factor)


class Worker:
    """One rank: its model, its optimizer, and its place in the data."""

    def __init__(self, slow: float) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.inputs, self.targets = dataset()
        self.hook = Hook()
        self.ddp = DistributedDataParallel(network())
        self.ddp.register_comm_hook(None, self.hook.reduce)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=LEARNING_RATE)
        self.slow, self.cursor, self.start = slow, 0, 0.0

    def step(self, plan: Plan) -> tuple[Measured, Norms, dict[str, object]]:
        """Train one step; return this rank's times, the whole step's norms, and a row to show."""
        batch, own = sum(plan.split), plan.split[self.rank]
        rows = rows_of(self.cursor + sum(plan.split[: self.rank]), own)
        time.sleep(FIXED + self.slow * own * (1 + self.rank))
        loss = nn.functional.cross_entropy(self.ddp(self.inputs[rows]), self.targets[rows])
        self.hook.begin(own / batch)
        backward = time.perf_counter()
        loss.backward()  # type: ignore[no-untyped-call]
        measured = self.hook.times(own, self.start, backward)
        self.start = time.perf_counter()
        gradients = [p.grad for p in self.ddp.parameters() if p.grad is not None]
        whole = sum(float(gradient.square().sum()) for gradient in gradients)
        told = torch.tensor([self.hook.square_norm, float(loss.detach()) * own / batch])
        gathered = [torch.zeros_like(told) for _ in range(self.world)]
        dist.all_gather(gathered, told)
        squares = [float(each[0]) for each in gathered]
        estimate = noise_scale.estimate(plan.split, squares, whole)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.cursor += batch
        row = {
            "local_batches": plan.split,
            "learning_rate": plan.learning_rate,
            "loss": float(sum(each[1] for each in gathered)),
            "seconds": measured.forward + measured.backward + measured.wire[-1],
        }
        return measured, (estimate.noise, estimate.gradient_square), row

    def phase(self, plan: Plan, skipped: int) -> tuple[list[Measured], list[Norms], list[object]]:
        """Train some steps of one plan; the first ones after a change are not measured."""
        for group in self.optimizer.param_groups:
            group["lr"] = plan.learning_rate
        self.start = time.perf_counter()
        done = [self.step(plan) for _ in range(skipped + PROBE)]
        return [m for m, _, _ in done[skipped:]], [n for _, n, _ in done], [r for _, _, r in done]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=48, help="reference batch, in samples")
    parser.add_argument("--max-batch", type=int, default=192)
    parser.add_argument("--slow", type=float, default=0.0015, help="seconds a sample, by rank")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    world = dist.get_world_size()
    if world < 2:
        raise SystemExit("plain_ddp needs two ranks: torchrun --nproc-per-node 2 plain_ddp.py")
    worker = Worker(options.slow)
    decider = Decider(options.batch, options.max_batch, [f"rank-{i}" for i in range(world)])
    ends = [options.batch * (i + 1) // world for i in range(world)]
    plan = Plan([end - start for start, end in zip([0, *ends], ends, strict=False)])
    steps: list[object] = []
    for phase in range(4):  # even, spread, optimal, and with the best batch
        records, norms, rows = worker.phase(plan, WARM_UP if phase == 0 else 1)
        steps += rows
        if phase == 3:
            break
        everyone: list[list[Measured]] = [[] for _ in range(world)]
        dist.all_gather_object(everyone, records)
        decision = [plan]
        if worker.rank == 0:  # one place decides, then tells
            decider.take(everyone, norms)
            decision = [decider.next(plan, phase)]
        dist.broadcast_object_list(decision)
        plan = decision[0]
    if worker.rank == 0:
        parameters = torch.cat([p.detach().flatten() for p in worker.ddp.parameters()]).tolist()
        figures = decider.figures | {"steps": steps, "parameters": parameters}
        show(figures, options.batch, as_json=options.json)
    dist.destroy_process_group()


def show(figures: dict[str, object], batch: int, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures))
        return
    step, even = figures["predicted_step_seconds"], figures["even_step_seconds"]
    assert isinstance(step, float)
    assert isinstance(even, float)
    print(f"batch {batch}: split {figures['split']}, step {step * 1e3:.1f} ms predicted,")
    print(f"  an even split {even * 1e3:.1f} ms: {even / step:.2f} x as fast")
    print(f"noise scale {figures['noise_scale']:.0f}: best batch {figures['batch']},")
    print(f"  learning rate x {figures['learning_rate_factor']:.2f}")


if __name__ == "__main__":
    main()
