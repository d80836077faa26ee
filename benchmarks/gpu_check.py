"""`make gpu-check`: what only a GPU can prove, in one script under four minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "digits.py"


def main() -> int:
    import torch

    if not torch.cuda.is_available():
        print("gpu-check: skipped: torch sees no CUDA device on this machine")
        return 0
    command = [sys.executable, "-m", "staves", "run", str(EXAMPLE), "--json", "--epochs", "4"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=200)
    if done.returncode != 0:
        print(f"gpu-check: failed: staves run ended with {done.returncode}")
        return 1
    figures = json.loads(done.stdout)
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    ok = figures["steps"] > 0 and figures["step_seconds"] is not None
    print(json.dumps({"gpus": names, "trained_and_timed_by_events": ok, "figures": figures}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
