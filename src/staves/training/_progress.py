"""How far a run has come: what is carried to joiners and saved, beside the model's own state."""

from __future__ import annotations

from typing import Any

from staves.errors import TrainingError
from staves.training._figures import Figures
from staves.training._knowledge import Knowledge
from staves.training._loader import Loader
from staves.training._state import TrainingState


class Progress:
    """Figures, the place in the data, and what was learned of the devices."""

    def __init__(self, figures: Figures, *, seed: int) -> None:
        self.figures, self.seed = figures, seed
        self.state = TrainingState()
        self.loader: Loader | None = None
        self.knowledge = Knowledge()
        self.next_plan = 0
        self._loaded: dict[str, Any] | None = None

    def take_loader(self, loader: Loader) -> None:
        """Train on this loader; one made inside `run.epochs` starts where the state is."""
        self._set_cursor(loader)
        self.loader = loader
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
