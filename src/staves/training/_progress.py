"""How far a run has come: what is carried to joiners and saved, beside the model's own state."""

from __future__ import annotations

from typing import Any

from staves.errors import TrainingError
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

    def take_loader(self, loader: Loader) -> None:
        """Train on this loader; one made inside `run.epochs` starts where the state is."""
        self._set_cursor(loader)
        self.loader = loader
        self._set_target()
        loader.reissue()

    def capture(self) -> dict[str, Any]:
        """Return the full training state; its tensors are the live ones."""
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
                "adaptation": self.adaptation.to_document() if self.adaptation else None,
            }
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
        adaptation = loaded.get("adaptation")  # older states, and those of a fixed batch, have none
        if self.adaptation is not None and adaptation is not None:
            self.adaptation.load_document(adaptation)
        elif self.adaptation is not None:
            self.adaptation.count_steps(self.figures.steps)

    @property
    def batch(self) -> int | None:
        """The total batch in samples, where it adapts."""
        return None if self.adaptation is None else self.adaptation.batch

    @property
    def noise_scale(self) -> float | None:
        """The noise scale in samples, where the total batch adapts and it is known."""
        return None if self.adaptation is None else self.adaptation.noise_scale

    def allowed_batches(self) -> BatchRange | None:
        """Return the total batches to choose from, where it adapts."""
        if self.adaptation is None:
            return None
        return self.adaptation.allowed(None if self.loader is None else self.loader.cursor.length)

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
            left = 1 - self.loader.cursor.position / self.loader.cursor.length
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

    def _set_target(self) -> None:
        if self.adaptation is not None and self.loader is not None:
            epochs = self._epochs
            self.adaptation.target = None if epochs is None else float(epochs * len(self.loader))

    def _set_cursor(self, loader: Loader) -> None:
        """Put the cursor where the loaded state has it."""
        loaded, cursor = self._loaded, loader.cursor
        if loaded is None or loaded["length"] == 0:  # from before there was a loader
            return
        if (loaded["length"], loaded["seed"]) != (cursor.length, self.seed):
            raise TrainingError(
                f"the state belongs to {loaded['length']} samples and seed {loaded['seed']},"
                f" this script has {cursor.length} and {self.seed}",
                hint="resume with the data set and seed it was trained with",
            )
        cursor.epoch, cursor.position = loaded["epoch"], loaded["position"]
