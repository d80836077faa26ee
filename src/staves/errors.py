"""The errors of Staves: one root with a hint, and an exit code for the command line."""

from __future__ import annotations


class StavesError(Exception):
    """Something failed, and this says what, where and what to do about it.

    Args:
        message: one line that says what is wrong, with the path to the field where there is one.
        hint: one line that says what to do, or None.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"


class InputError(StavesError, ValueError):
    """The input is malformed or infeasible: nothing was started. Exit code 2."""

    exit_code = 2


class TrainingError(StavesError, RuntimeError):
    """A training run was used wrongly or could not go on. Exit code 1."""
