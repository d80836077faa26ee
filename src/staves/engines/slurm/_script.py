"""The batch script in which an agent runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_HEAD = """\
#!/bin/sh
# An agent is never used again: the supervisor has asked for another one meanwhile.
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
# The warning of the time limit may come before the agent listens for it.
trap '' USR1
case "${CUDA_VISIBLE_DEVICES-}" in
  ''|NoDevFiles)  # Slurm knows which GPUs it gave, and has not said
    unset CUDA_VISIBLE_DEVICES
    gpus=$(scontrol show job --details --oneliner "$SLURM_JOB_ID" 2>/dev/null |
      grep -o 'gpu[^() ]*(IDX:[0-9,-]*)' | sed 's/.*IDX://; s/)//' | tr , '\\n' |
      while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done | paste -s -d , -)
    [ -z "$gpus" ] || export CUDA_VISIBLE_DEVICES="$gpus"
    ;;
esac
"""


def script(command: Sequence[str]) -> str:
    """Return a script that becomes this command: what Slurm signals and watches is the agent."""
    return f"{_HEAD}exec {shlex.join(command)}\n"
