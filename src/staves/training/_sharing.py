"""One state for all ranks of a generation: the checkpoint's at first, then the source's."""

from __future__ import annotations

from typing import Any

from staves.training._channel import Channel
from staves.training._crew import Crew, Generation
from staves.training._exchange import Exchange
from staves.training._progress import Progress
from staves.training._saving import Saving
from staves.training._state import transfer


def load_checkpoint(
    generation: Generation, saving: Saving, progress: Progress, to: Channel
) -> dict[str, Any] | None:
    """Load the newest good checkpoint, if there is one: on the source of an attempt's start.

    Returns it.
    """
    checkpoints = saving.checkpoints
    if checkpoints is None or generation.rank != generation.source:
        return None
    saved = checkpoints.latest()
    if saved is not None:
        progress.load(saved)
        to.say(f"resumed at step {progress.figures.steps} from {checkpoints.folder}")
    return saved


def receive_state(
    generation: Generation,
    exchange: Exchange | None,
    progress: Progress,
    crew: Crew,
    saved: dict[str, Any] | None,
) -> bool:
    """Give the receivers the source's state; return whether this rank has received it.

    Of a sharded model no rank has more than its part, which it keeps; unless a checkpoint was
    loaded (`saved`): then all take their parts of that.

    Raises:
        Interrupted: the generation broke meanwhile; this rank's own state is as it was.
    """
    if not generation.receivers or exchange is None:
        return False
    is_source = generation.rank == generation.source
    own: dict[str, Any] | None = None
    if is_source and saved is not None and progress.state.sharding is not None:
        own = saved
    elif is_source:
        own = progress.capture(shared=True)
    received = transfer(
        own,
        exchange=exchange,
        source=generation.source,
        receivers=generation.receivers,
        interrupted=crew.interrupted,
    )
    if received is None:
        return False
    crew.incomplete()  # from here to the end of loading it is neither old nor new
    progress.load(received)
    return True
