"""`staves.init`: from arguments and environment to a run."""

from __future__ import annotations

import atexit
import os
from pathlib import Path

import torch

from staves.documents import duration
from staves.errors import InputError
from staves.training import _group
from staves.training._adaptation import Adaptation
from staves.training._arguments import positive_integer, seed_of
from staves.training._batch import Adaptive
from staves.training._board import Board
from staves.training._channel import Channel
from staves.training._checkpoint import Checkpoints
from staves.training._crew import Crew, FixedCrew, SupervisedCrew
from staves.training._environment import Environment
from staves.training._planner import check_split
from staves.training._refusal import exit_status, report_input_errors
from staves.training._run import Run
from staves.training._session import Session
from staves.training._splits import Split

_crew: Crew | None = None


def init(
    batch_size: int | Adaptive,
    *,
    seed: int = 0,
    split: Split = "auto",
    max_local_batch: int | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: str | float = "5m",
    checkpoint_keep: int = 3,
    tensorboard: str | Path | None = None,
) -> Run:
    """Start a training run on this rank. Call it once, at the top of the script.

    Args:
        batch_size: the total batch over all devices, in samples: policy, never an accident of how
            many devices there are.
        seed: of the data order, and of all random numbers: they follow from (seed, epoch, sample).
        split: "auto" learns the devices' speeds and splits optimally; "even" never does; a list
            gives each rank's samples; a function gives that list for every step.
        max_local_batch: the most samples this device can hold at once; beyond it gradients are
            accumulated over micro-batches.
        checkpoint: a folder for this job's checkpoints; training resumes from the newest good one
            in it, at any number of ranks.
        checkpoint_every: time between two of them, such as "5m"; a number is seconds.
        checkpoint_keep: how many of the newest are kept.
        tensorboard: a folder for TensorBoard's scalars, which rank 0 writes; `STAVES_TENSORBOARD`
            in the environment overrides it.

    Raises:
        InputError: an argument is malformed, or TensorBoard is wanted and not installed.
    """
    global _crew
    channel = Channel.inherited()
    report_input_errors(channel)
    seed_of("init(seed)", seed)
    if max_local_batch is not None:
        positive_integer("init(max_local_batch)", max_local_batch)
    positive_integer("init(checkpoint_keep)", checkpoint_keep, hint="count checkpoints")
    environment = Environment.read()
    adaptive = isinstance(batch_size, Adaptive)
    asked = batch_size.reference if isinstance(batch_size, Adaptive) else batch_size
    positive_integer("init(batch_size)", asked)
    batch = asked if environment.batch is None else environment.batch
    if environment.device.profile is not None:
        # Many emulated devices share this machine's cores; one thread each is what they can have.
        torch.set_num_threads(1)
    torch.manual_seed(seed)
    device = _device(environment)
    if _crew is None:
        if environment.member is None:
            _crew = FixedCrew(environment, device)
        else:
            _crew = SupervisedCrew(environment, channel)
        atexit.register(_end)
    wanted = _split(split, environment)
    if isinstance(wanted, list):
        known = environment.member is None  # else the supervisor says who trains together
        check_split(wanted, batch, environment.world_size if known else len(wanted))
    session = Session(
        environment,
        device,
        channel,
        _crew,
        batch=batch,
        seed=seed,
        split=wanted,
        max_local_batch=max_local_batch,
        adaptation=(
            Adaptation(batch_size, pinned=environment.batch)
            if isinstance(batch_size, Adaptive)
            else None
        ),
    )
    if not environment.probing:
        session.figures.board = Board.wanted(tensorboard)
    folder = environment.checkpoint or checkpoint
    if folder is not None and not environment.probing:
        every = environment.checkpoint_every or checkpoint_every
        session.saving.checkpoints = Checkpoints(
            Path(folder),
            every=float(every) if isinstance(every, (int, float)) else duration(every),
            keep=checkpoint_keep,
            token=f"{os.environ.get('STAVES_RUN') or os.getpid()}#{environment.attempt}",
            say=channel.say,
        )
    run = Run(session, reference_batch=asked if adaptive else batch)
    if run.is_main and batch != asked:
        channel.say(f"the total batch is {batch}, as the launcher says; the script says {asked}")
    return run


def _end() -> None:
    """Leave the group before the interpreter goes; past a broken one, go without torch's help.

    A process that has parked a broken group would abort in its destructors; one whose script has
    failed in the middle of a step now and then does. Its supervisor would then take the failure of
    the script for the loss of a device.
    """
    failed = isinstance(_crew, SupervisedCrew) and exit_status() != 0
    if failed or _group.has_parked():
        _group.end_process(exit_status())
    if isinstance(_crew, FixedCrew):
        _group.destroy()
    else:
        _group.leave()
        _group.destroy_retired()


def _split(split: Split, environment: Environment) -> Split:
    """Return the split that holds: the launcher's before the script's."""
    wanted = environment.split or split
    if callable(wanted):
        return wanted
    if not isinstance(wanted, str):
        try:
            return list(wanted)
        except TypeError:
            raise InputError(
                f"init(split): {wanted!r} is no split",
                hint='"auto", "even", samples by rank, or a function from the step to those',
            ) from None
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
