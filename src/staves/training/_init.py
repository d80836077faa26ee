"""`staves.init`: from arguments and environment to a run."""

from __future__ import annotations

import torch

from staves.errors import InputError
from staves.training._batch import Adaptive, positive_integer
from staves.training._channel import Channel
from staves.training._environment import Environment
from staves.training._refusal import report_input_errors
from staves.training._run import Run, Split


def init(
    batch_size: int | Adaptive,
    *,
    seed: int = 0,
    split: Split = "auto",
    max_local_batch: int | None = None,
) -> Run:
    """Start a training run on this rank. Call it once, at the top of the script.

    Args:
        batch_size: the total batch over all devices, in samples: policy, never an accident of how
            many devices there are.
        seed: of the data order, and of torch's random numbers at the start.
        split: "auto" learns the devices' speeds and splits optimally; "even" never does; a list
            gives each rank's samples; a function gives that list for every step.
        max_local_batch: the most samples this device can hold at once; beyond it gradients are
            accumulated over micro-batches.

    Raises:
        InputError: an argument is malformed, or the batch cannot be split over these devices.
    """
    channel = Channel.inherited()
    report_input_errors(channel)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"init(seed): {seed!r} is not an integer")
    if max_local_batch is not None:
        positive_integer("init(max_local_batch)", max_local_batch)
    environment = Environment.read()
    adaptive = isinstance(batch_size, Adaptive)
    asked = batch_size.reference if isinstance(batch_size, Adaptive) else batch_size
    positive_integer("init(batch_size)", asked)
    batch = asked if environment.batch is None else environment.batch
    if environment.device.profile is not None:
        # Many emulated devices share this machine's cores; one thread each is what they can have.
        torch.set_num_threads(1)
    torch.manual_seed(seed)
    run = Run(
        environment,
        _device(environment),
        channel,
        batch=batch,
        reference_batch=asked if adaptive else batch,
        seed=seed,
        split=_split(split, environment),
        max_local_batch=max_local_batch,
    )
    if run.is_main and adaptive:
        run.say(f"the total batch stays at {batch}: this version does not adapt it yet")
    if run.is_main and batch != asked:
        run.say(f"the total batch is {batch}, as the launcher says; the script says {asked}")
    return run


def _split(split: Split, environment: Environment) -> Split:
    """Return the split that holds: the launcher's before the script's."""
    wanted = environment.split or split
    if not isinstance(wanted, str):
        return wanted if callable(wanted) else list(wanted)
    if wanted == "even":
        return "even"
    if wanted == "auto":
        return "auto"
    try:
        return [int(part) for part in wanted.split(",")]
    except ValueError:
        raise InputError(
            f"split: {wanted!r} is no split", hint='"auto", "even" or samples like 24,8'
        ) from None


def _device(environment: Environment) -> torch.device:
    emulated = environment.device.profile is not None
    if emulated or environment.device.type == "local-cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(environment.local_rank)
    return torch.device("cuda", environment.local_rank)
