"""The near end of the line to a driver."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from typing import Any

from staves.errors import StavesError

_CONNECTS_WITHIN = 45.0
"""Seconds from the start of a driver until it must have reached its cluster."""
_ANSWERS_WITHIN = 30.0  # seconds
_ENDS_WITHIN = 8.0  # seconds
_LAST_WORDS = 4000  # bytes


class Line:
    """A driver process, and calls to it one at a time.

    It ends when this one does. Calls that were not answered in time are done later, or never.

    Args:
        address: of the cluster, as `ray.init` takes it.

    Raises:
        StavesError: Ray is not installed, or the cluster does not answer.
    """

    def __init__(self, address: str) -> None:
        if importlib.util.find_spec("ray") is None:
            raise StavesError(
                "the Ray engine needs the package ray", hint="pip install 'staves[ray]'"
            )
        self._address, self._count, self._pending = address, 0, b""
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the line is
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "staves.engines.ray", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
            start_new_session=True,  # Ctrl-C is not for it
        )
        try:
            about = self._answer(0, _CONNECTS_WITHIN)
        except BaseException:
            self._process.kill()
            self._over()
            raise
        self.address, self.host = str(about["address"]), str(about["host"])
        """The cluster's address, and that of this machine in it."""

    @property
    def alive(self) -> bool:
        """Whether the driver lives: it ends when it loses its cluster, and its actors with it."""
        return self._process.poll() is None

    def call(self, name: str, **arguments: Any) -> Any:
        """Have the driver do something; return what it returns.

        Raises:
            StavesError: it refuses, has ended or does not answer.
        """
        assert self._process.stdin is not None
        self._count += 1
        words = json.dumps({"id": self._count, "call": name, "arguments": arguments})
        with contextlib.suppress(BrokenPipeError):  # then there is no answer, and that is said
            self._process.stdin.write(words.encode() + b"\n")
            self._process.stdin.flush()
        return self._answer(self._count, _ANSWERS_WITHIN)

    def close(self) -> None:
        """End the driver, and with it all that it has started."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._over()

    def _over(self) -> None:
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._words):
            if file is not None:
                with contextlib.suppress(BrokenPipeError):
                    file.close()

    def _answer(self, number: int, within: float) -> Any:
        assert self._process.stdout is not None
        descriptor, end = self._process.stdout.fileno(), time.monotonic() + within
        while True:
            line, found, rest = self._pending.partition(b"\n")
            if found:
                self._pending = rest
                told = json.loads(line)
                if told["id"] != number:  # of a call that was given up
                    continue
                if "error" in told:
                    raise StavesError(told["error"])
                return told["result"]
            left = end - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise StavesError(
                    f"the Ray cluster at {self._address} does not answer",
                    hint="is its head there? `ray status` asks it",
                )
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise StavesError(
                    f"the connection to the Ray cluster at {self._address} was lost{self._last()}"
                )
            self._pending += data

    def _last(self) -> str:
        """Return the driver's last words, as the end of a sentence."""
        self._process.wait()
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - _LAST_WORDS))
        text = self._words.read().decode(errors="replace").strip()
        return f": {text.rpartition(chr(10))[2]}" if text else ""
