"""How far a run has come: what is carried to joiners and saved, beside the model's own state."""

from __future__ import annotations

from typing import Any

from staves.errors import InputError, TrainingError
from staves.training._adaptation import Adaptation
from staves.training._batch_choice import BatchRange
from staves.training._exchange import Exchange
from staves.training._figures import Figures
from staves.training._knowledge import Knowledge
from staves.training._loader import Loader
from staves.training._planner import Planner
from staves.training._state import TrainingState


class Progress:
    """Figures, the place in the data, and what was learned of the devices."""

    def __init__(self, figures: Figures, *, seed: int) -> None:
        self.figures, self.seed = figures, seed
        self.state = TrainingState()
        self.loader: Loader | None = None
        self.knowledge = Knowledge()
        self.next_plan = 0
        self.adaptation: Adaptation | None = None
        self._epochs: int | None = None
        self._loaded: dict[str, Any] | None = None
        self._kept: dict[str, Any] | None = None  # an adaptive run's, while the batch is fixed

    def take_loader(self, loader: Loader) -> None:
        """Train on this loader; one made inside `run.epochs` starts where the state is."""
        self._set_cursor(loader)
        self.loader = loader
        self._set_target()
        loader.reissue()

    def capture(self, *, shared: bool = False) -> dict[str, Any]:
        """Return the full training state; its tensors are the live ones.

        Of a sharded model as `TrainingState.capture` says.
        """
        cursor = self.loader.cursor if self.loader is not None else None
        return self.state.capture(
            {
                "figures": self.figures.to_document(),
                "epoch": cursor.epoch if cursor else 0,
                "position": cursor.position if cursor else 0,
                "length": cursor.length if cursor else 0,
                "seed": self.seed,
                "knowledge": self.knowledge.to_document(),
                "next_plan": self.next_plan,
                "adaptation": self.adaptation.to_document() if self.adaptation else self._kept,
            },
            shared=shared,
        )

    def load(self, state: dict[str, Any]) -> None:
        """Take over a full training state.

        Raises:
            TrainingError: it does not fit this script.
        """
        loaded = self._loaded = self.state.restore(state)
        if self.loader is not None:
            self._set_cursor(self.loader)
        self.figures.load_document(loaded["figures"])
        self.knowledge = Knowledge.from_document(loaded["knowledge"])
        self.next_plan = loaded["next_plan"]
        self._load_adaptation(loaded)

    @property
    def batch(self) -> int | None:
        """The total batch in samples, where it adapts."""
        return None if self.adaptation is None else self.adaptation.batch

    @property
    def noise_scale(self) -> float | None:
        """The noise scale in samples, where the total batch adapts and it is known."""
        return None if self.adaptation is None else self.adaptation.noise_scale

    @property
    def acted_on(self) -> float | None:
        """The noise scale by which the total batch is chosen, where it adapts."""
        return None if self.adaptation is None else self.adaptation.acted_on

    def allowed_batches(self) -> BatchRange | None:
        """Return the total batches to choose from, where it adapts."""
        if self.adaptation is None:
            return None
        return self.adaptation.allowed(None if self.loader is None else self.loader.samples)

    def aim(self, epochs: int | None) -> None:
        """Train for that many passes more, counted at the reference batch; None: as data goes."""
        self._epochs = None if epochs is None else (self._epochs or 0) + epochs
        self._set_target()

    def reached(self, epochs: int, epoch: int) -> bool:
        """Whether training has come to its end: that many passes, or as much progress."""
        adaptation = self.adaptation
        if adaptation is None or adaptation.target is None:
            return epoch >= epochs
        return adaptation.complete

    def break_off(self) -> None:
        """Leave out the rest of the pass over the data under way."""
        if self.loader is None:
            return
        if self.adaptation is not None and not self.adaptation.complete:
            samples = self.loader.samples
            if samples is not None:  # else nothing is reckoned in passes
                left = max(0.0, 1 - self.loader.cursor.position / samples)
                self.adaptation.leave_out(left * len(self.loader))
        self.loader.cursor.next_epoch()
        self.loader.reissue()

    def decided(self, planner: Planner) -> None:
        """Keep what a decision has brought: for joiners, checkpoints and later generations."""
        self.knowledge = planner.knowledge
        self.next_plan = max(self.next_plan, planner.plan.number + 1)
        if self.adaptation is not None:
            self.adaptation.batch = planner.batch

    def agree(self, exchange: Exchange | None, source: int) -> None:
        """Take the source's noise scale: ranks that went on may differ by a step's measurement."""
        if self.adaptation is not None and exchange is not None:
            self.adaptation.load_document(exchange.broadcast(self.adaptation.to_document(), source))

    def _load_adaptation(self, loaded: dict[str, Any]) -> None:
        """Take over an adaptive run's progress, or keep it while the batch is fixed.

        Passes made at a fixed batch are worth as many at the reference batch, whatever it is.
        """
        document = loaded.get("adaptation")  # None: the batch has been fixed from the start
        place = [loaded["epoch"], loaded["position"]]
        if self.adaptation is None:
            self._kept = None if document is None else {"until": place, **document}
            return
        if loaded["length"] == 0 and document is None:  # trained without a loader
            self.adaptation.count_steps(self.figures.steps)
            return
        length = max(1, loaded["length"])
        steps = self._steps_of_a_pass(self.adaptation.reference, length)
        if document is not None:
            before = document.get("reference", self.adaptation.reference)
            unit = steps / self._steps_of_a_pass(before, length)
            self.adaptation.load_document(document, unit=unit)
        epoch, position = [0, 0] if document is None else document.get("until", place)
        passes = place[0] - epoch + (place[1] - position) / length
        self.adaptation.count_passes(passes * steps)

    def _steps_of_a_pass(self, batch: int, length: int) -> float:
        """Return the steps of `batch` samples in a pass over `length`, as `len(loader)` counts."""
        steps = None if self.loader is None else self.loader.steps_at(batch)
        return steps or length / batch

    def _set_target(self) -> None:
        if self.adaptation is not None and self.loader is not None:
            epochs = self._epochs
            if epochs is not None and self.loader.samples is None:
                raise InputError(
                    "run.epochs: an adaptive batch counts passes by the samples, and nobody has"
                    " said how many this stream has",
                    hint='run.loader(stream, length=...), or run.epochs(n, of="data")',
                )
            self.adaptation.target = None if epochs is None else float(epochs * len(self.loader))

    def _set_cursor(self, loader: Loader) -> None:
        """Put the cursor where the loaded state has it."""
        loaded, cursor = self._loaded, loader.cursor
        if loaded is None or loaded["length"] == 0:  # from before there was a loader
            return
        if (loaded["length"], loaded["seed"]) != (cursor.length, self.seed):
            theirs, own = (
                "a stream" if length is None else f"{length} samples"
                for length in (loaded["length"], cursor.length)
            )
            raise TrainingError(
                f"the state belongs to {theirs} and seed {loaded['seed']},"
                f" this script has {own} and {self.seed}",
                hint="resume with the data set and seed it was trained with",
            )
        cursor.epoch, cursor.position = loaded["epoch"], loaded["position"]
