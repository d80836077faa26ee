"""The errors of Staves: one root with a hint, and an exit code for the command line."""

from __future__ import annotations

_LONGEST_LINE = 2000  # characters: room for any path, not for a key of a megabyte
_LONGEST_QUOTE = 60


def printable(text: str) -> str:
    """Return `text` on one line: line ends and control codes escaped, a long middle left out.

    What comes out goes in unchanged: a message may pass here twice.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return _shortened(text, _LONGEST_LINE)


def quoted(value: object) -> str:
    """Return `value` as Python writes it, shortened: for what people wrote, whatever it is."""
    if isinstance(value, str):
        return repr(_shortened(value, _LONGEST_QUOTE))
    try:
        return _shortened(printable(repr(value)), _LONGEST_QUOTE)
    except ValueError:  # Python prints no whole number of thousands of digits
        return "a number of thousands of digits"


def _shortened(text: str, most: int) -> str:
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


class StavesError(Exception):
    """Something failed, and this says what, where and what to do about it.

    Args:
        message: one line that says what is wrong, with the path to the field where there is one.
            Line ends and control codes in it are escaped: it may quote what people wrote.
        hint: one line that says what to do, or None.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = printable(message)
        self.hint = None if hint is None else printable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"


class InputError(StavesError, ValueError):
    """The input is malformed or infeasible: nothing was started. Exit code 2."""

    exit_code = 2


class TrainingError(StavesError, RuntimeError):
    """A training run was used wrongly or could not go on. Exit code 1."""
