"""What Slurm's commands say when they fail, on one line."""

from __future__ import annotations

import pytest

from staves.engines.slurm._commands import CommandError, run


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        ("sh: unrecognized option --nonsense\nTry sbatch --help for more", "unrecognized option"),
        ("one\ntwo\n\nthree\nfour", "two; three; four"),
        ("", "exit status 3"),
        ("Try sbatch --help for more", "exit status 3"),
    ],
)
def test_the_cause_is_told_and_the_usage_is_not(stderr: str, told: str) -> None:
    with pytest.raises(CommandError, match=told) as raised:
        run("sh", "-c", 'printf "%s" "$SAID" >&2; exit 3', environ={"SAID": stderr})
    assert "\n" not in raised.value.message
    assert "--help" not in raised.value.message
