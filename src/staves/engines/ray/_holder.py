"""The actor that holds an agent's devices and runs the agent.

Its class travels to the node by value, so that Ray's workers need not be able to import staves: all
that it uses is in the standard library.
"""

from __future__ import annotations

import os
import subprocess
import tempfile

_TETHER = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("its actor has gone")
os.execve(sys.argv[2], sys.argv[2:], os.environ)
"""
# The command ends when the actor's process does: its devices are Ray's to give away from then on.

_ENDS_WITHIN = 5.0  # seconds from a SIGTERM
_LAST_WORDS = 2000  # bytes


class Holder:
    """Runs one command as a child that dies with this process.

    `run` takes one thread of the actor for as long as the command runs; `end` another.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False

    def here(self) -> int:
        """Say that the actor is there; return its pid."""
        return os.getpid()

    def run(self, command: list[str], environ: dict[str, str]) -> str:
        """Run the command to its end; return its exit status and last words."""
        with tempfile.TemporaryFile() as words:
            self._process = subprocess.Popen(
                [command[0], "-I", "-S", "-c", _TETHER, str(os.getpid()), *command],
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
            if self._over:
                self._process.terminate()
            status = self._process.wait()
            words.seek(max(0, words.seek(0, os.SEEK_END) - _LAST_WORDS))
            last = words.read().decode(errors="replace").strip().rpartition("\n")[2]
        return f"status {status}{': ' if last else ''}{last}"

    def end(self) -> None:
        """End the command, by force where need be."""
        self._over = True
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
