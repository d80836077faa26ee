"""One rank of a check of `make gpu-check`: gpu_rank.py CHECK. Rank 0 says how it went.

The script forms a gloo group by itself before Staves does: then ranks may share one GPU, which NCCL
refuses. Everything else is as in any script of a user.
"""

# No `from __future__ import annotations`: torch wants the annotations of hooks as objects.
import importlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

import staves

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if CUDA else torch.device("cpu")
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BATCH = 32
Answer = tuple[bool, str, dict[str, Any]]


def join() -> None:
    """Form the group; ranks that share a device need gloo."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def data(samples: int, width: int, dtype: torch.dtype = torch.float32) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, width, generator=generator, dtype=dtype)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def network(width: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
    ).to(dtype)


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).cpu()


def apart(model: nn.Module) -> float:
    """Return the greatest difference between the parameters of two ranks."""
    own = flat(model)
    others = [torch.zeros_like(own) for _ in range(WORLD)]
    dist.all_gather(others, own)
    return max(float((other - own).abs().max()) for other in others)


def sharing() -> Answer:
    """Uneven splits on one GPU against one process on the whole batch."""
    join()
    run = staves.init(batch_size=BATCH, seed=0, split=[24, 8])
    examples = data(BATCH, 16, torch.float64)  # one batch is all of it: its order does not matter
    model, alone = network(16, torch.float64), network(16, torch.float64).to(DEVICE)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = run.prepare(model, sgd)
    batches = run.loader(examples)
    for _ in run.epochs(6):
        for inputs, targets in batches:
            run.backward((model(inputs) - targets).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    reference = torch.optim.SGD(alone.parameters(), lr=0.1)
    inputs, targets = (each.to(DEVICE) for each in examples.tensors)
    for _ in range(6):
        reference.zero_grad()
        (alone(inputs) - targets).square().mean().backward()
        reference.step()
    error = float((flat(alone) - flat(run.unwrap(model))).abs().max())
    between = apart(run.unwrap(model))
    return (
        error < 1e-9 and between == 0 and run.device == DEVICE,
        f"greatest difference {error:.1e}, between ranks {between:.1e}, on {run.device}",
        {"difference": error, "between_ranks": between},
    )


def timing() -> Answer:
    """Step times by events against the clock on the wall, and a plan that was fitted to them."""
    join()
    width, steps = (1024, 80) if CUDA else (64, 80)
    run = staves.init(batch_size=BATCH, seed=0)
    model = network(width)
    model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    batches = run.loader(data(BATCH * steps, width))
    seen: list[float] = []
    for _ in run.epochs(1):
        for inputs, targets in batches:
            run.backward((model(inputs) - targets).square().mean())
            optimizer.step()
            optimizer.zero_grad()
            seen.append(time.perf_counter())
    if CUDA:
        torch.cuda.synchronize()
    report = run.report()
    rows = report["history"]["rows"]
    measured = sum(row["measured"] for row in rows)
    total = sum(row["measured"] * (row["step_seconds"] or 0.0) for row in rows)
    spans = sorted(later - sooner for sooner, later in itertools.pairwise(seen))
    wall = spans[len(spans) // 2]
    mean = total / measured if measured else math.nan
    predicted = report["predicted_step_seconds"]
    fitted = predicted is not None and math.isfinite(predicted) and predicted > 0
    return (
        measured >= steps // 2 and 0.5 < mean / wall < 2 and fitted,
        f"{measured} of {steps} steps timed, {mean * 1e3:.2f} ms by events, {wall * 1e3:.2f} ms"
        f" by the host; the model {'predicts a step' if fitted else 'was never fitted'}",
        {"measured": measured, "event_seconds": mean, "host_seconds": wall, "predicted": predicted},
    )


def scaler() -> Answer:
    """One rank's gradients overflow in one step."""
    join()
    run = staves.init(batch_size=BATCH, seed=0, split="even")
    model = network(64)
    plain = torch.optim.SGD(model.parameters(), lr=1e-3)
    first = 2.0**10
    scaled = torch.amp.GradScaler(DEVICE.type, init_scale=first)
    model, optimizer, scaled = run.prepare(model, plain, scaled)
    batches = run.loader(data(BATCH * 8, 64))
    overflowed, kept, tries = False, False, 0
    for _ in run.epochs(1):
        for inputs, targets in batches:
            tries += 1
            with torch.autocast("cuda", dtype=torch.float16, enabled=CUDA):
                outputs = model(inputs)
            loss = (outputs.float() - targets).square().mean()
            before = flat(run.unwrap(model))
            overflows = not overflowed and tries == 4
            if overflows and RANK == WORLD - 1:
                loss = loss * math.inf
            run.backward(scaled.scale(loss))
            scaled.step(optimizer)
            scaled.update()
            optimizer.zero_grad()
            if overflows:
                overflowed = True
                kept = torch.equal(before, flat(run.unwrap(model)))
    after = flat(run.unwrap(model))
    finite, between = bool(torch.isfinite(after).all()), apart(run.unwrap(model))
    scale = scaled.get_scale()
    return (
        overflowed and kept and finite and between == 0 and scale == first / 2
        and run.committed_steps == 8,
        f"the step was {'void' if kept else 'NOT void'}, scale {first:g} -> {scale:g},"
        f" {run.committed_steps} of 8 steps, between ranks {between:.1e}",
        {"scale": scale, "void": kept, "finite": finite, "between_ranks": between},
    )  # fmt: skip


class Hungry(nn.Module):
    """Takes much memory for each sample; on a CPU it only says that there is none left."""

    PER_SAMPLE = 96 * 2**20
    MOST = 12
    ROOM = 300 * 2**20  # beside the samples: the model, workspaces

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(16)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if CUDA:
            held = torch.empty(len(inputs) * self.PER_SAMPLE, dtype=torch.uint8, device=DEVICE)
            del held
        elif RANK == WORLD - 1 and len(inputs) > self.MOST:
            raise torch.OutOfMemoryError("out of memory (a dry run)")
        outputs: torch.Tensor = self.inner(inputs)
        return outputs


def oom() -> Answer:
    """The last rank cannot hold an even share of the batch."""
    join()
    if CUDA and RANK == WORLD - 1:
        most = Hungry.MOST * Hungry.PER_SAMPLE + Hungry.ROOM
        total = torch.cuda.get_device_properties(DEVICE).total_memory
        torch.cuda.set_per_process_memory_fraction(most / total, DEVICE)
    run = staves.init(batch_size=BATCH, seed=0)
    model: nn.Module = Hungry()
    model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    batches = run.loader(data(BATCH * 40, 16))
    largest = 0
    for _ in run.epochs(1):
        for inputs, targets in batches:
            run.backward((model(inputs) - targets).square().mean())
            if run.committed and RANK == WORLD - 1:
                largest = max(largest, len(inputs))
            optimizer.step()
            optimizer.zero_grad()
    between = apart(run.unwrap(model))
    told = torch.tensor([largest])
    dist.broadcast(told, WORLD - 1)
    largest, steps = int(told), run.committed_steps
    return (
        steps == 40 and between == 0 and 0 < largest < BATCH // 2,
        f"{steps} of 40 steps, the short rank held {largest} samples at most,"
        f" between ranks {between:.1e}",
        {"steps": steps, "largest": largest, "split": list(run.plan.local_batches)},
    )


class Wide(nn.Module):
    """Activations of some 20 MiB a sample, and hardly any weights."""

    COPIES, DEPTH = 2**16, 4

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(16)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        wide = inputs.repeat(1, self.COPIES) * self.scale
        for _ in range(self.DEPTH):
            wide = torch.tanh(wide)
        outputs: torch.Tensor = self.inner(wide.view(len(inputs), self.COPIES, -1).mean(1))
        return outputs


def memory() -> Answer:
    """Peaks at three local batches: two tell the third, and the trainer's fit its cap."""
    join()
    run = staves.init(
        batch_size=BATCH, seed=0, split=lambda step: [8 + 8 * (step % 3), 24 - 8 * (step % 3)]
    )
    model: nn.Module = Wide()
    model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    batches = run.loader(data(BATCH * 18, 16))
    peaks: dict[int, int] = {}
    for _ in run.epochs(1):
        for inputs, targets in batches:
            torch.cuda.reset_peak_memory_stats(DEVICE)
            run.backward((model(inputs) - targets).square().mean())
            held = len(inputs)
            peaks[held] = max(peaks.get(held, 0), torch.cuda.max_memory_allocated(DEVICE))
            optimizer.step()
            optimizer.zero_grad()
    few, some, many = sorted(peaks)
    slope = (peaks[some] - peaks[few]) / (some - few)
    expected = peaks[few] + slope * (many - few)
    error = abs(expected / peaks[many] - 1)
    fit = importlib.import_module("staves.training._memory")
    limit = int(1.02 * peaks[many] / fit.MARGIN)
    cap = fit.fitted_cap([(few, peaks[few]), (some, peaks[some])], limit)
    return (
        slope > 0 and error < 0.05 and cap is not None and abs(cap - many) <= 2,
        f"the third peak is {error:.1%} off the line of the other two; cap {cap}, {many} fitted",
        {"peaks": peaks, "error": error, "cap": cap},
    )


def hook() -> Answer:
    """The product's own hook, under NCCL, while torch raises at each synchronisation."""
    from staves.training._reducer import WeightedReducer
    from staves.training._timing import CudaClock, StepTimer

    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    group = dist.group.WORLD
    assert group is not None
    timer = StepTimer(CudaClock())
    plain = network(1024).to(DEVICE)
    elements = sum(p.numel() for p in plain.parameters())
    reducer = WeightedReducer(group, timer, None, elements=elements, device=DEVICE)
    options: dict[str, Any] = {"process_group": group, "gradient_as_bucket_view": True}
    model = DistributedDataParallel(plain, **options)
    model.register_comm_hook(None, reducer.hook)
    silent, records = _synchronises(model, timer, reducer.begin, steps=12), 0
    timer.begin()
    for step in range(3):
        _step(model, timer, reducer.begin)
        torch.cuda.synchronize()
        timer.note(step=step, plan=0, samples=8)
        records += len(list(timer.records()))
    # Could this check fail? A hook that does synchronise must be caught.
    caught = _synchronises(_with_loud_hook(options), timer, lambda: None, steps=4) is not None
    return (
        silent is None and caught and records == 3,
        f"{silent or 'no synchronisation in 12 steps'}; a hook that does synchronise is"
        f" {'caught' if caught else 'NOT caught'}; {records} of 3 steps timed",
        {"synchronised": silent, "control_caught": caught, "timed": records},
    )


def _with_loud_hook(options: dict[str, Any]) -> DistributedDataParallel:
    model = DistributedDataParallel(network(64).to(DEVICE), **options)

    def loud(state: object, bucket: GradBucket) -> Future[torch.Tensor]:
        bucket.buffer().sum().item()
        future: Future[torch.Tensor] = Future(devices=[DEVICE])
        future.set_result(bucket.buffer())
        return future

    model.register_comm_hook(None, loud)
    return model


def _step(model: DistributedDataParallel, timer: Any, begin: Callable[[], None]) -> None:
    width = model.module[0].in_features
    loss = model(torch.ones(8, width, device=DEVICE)).square().mean()
    timer.backward()
    begin()
    loss.backward()
    timer.end()


def _synchronises(
    model: DistributedDataParallel, timer: Any, begin: Callable[[], None], *, steps: int
) -> str | None:
    """Return what torch says of a synchronisation in backward passes; None where there is none.

    The first passes settle buckets, kernels and communicators, and may synchronise.
    """
    timer.begin()
    try:
        for step in range(steps):
            if step == 3:
                torch.cuda.synchronize()
                torch.cuda.set_sync_debug_mode("error")
            _step(model, timer, begin)
            timer.note(step=step, plan=0, samples=8)
            list(timer.records())
    except RuntimeError as error:
        return " ".join(str(error).split())[:200]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return None


CHECKS: dict[str, Callable[[], Answer]] = {
    "sharing": sharing,
    "timing": timing,
    "scaler": scaler,
    "oom": oom,
    "memory": memory,
    "hook": hook,
}


def main() -> None:
    ok, said, figures = CHECKS[sys.argv[1]]()
    # A rank's verdict may differ from rank 0's: one that fails ends with an error.
    if RANK == 0:
        print(json.dumps({"ok": ok, "said": said, "figures": figures}), flush=True)
    elif not ok:
        raise SystemExit(said)


if __name__ == "__main__":
    main()
