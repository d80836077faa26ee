"""Start `staves run` for a measurement, and read its figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def staves_run(script: Path, devices: Path, *arguments: str) -> dict[str, Any]:
    """Run a script over the devices of a cluster file; return its JSON figures."""
    command = [sys.executable, "-m", "staves", "run", str(script), "--devices", str(devices)]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [*command, "--json", *arguments],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "STAVES_HOME": home},
        )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
