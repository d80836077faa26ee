"""An engine on a Slurm cluster: agents are Slurm jobs."""

from staves.engines.slurm._nodes import SlurmNodes
from staves.engines.slurm._options import keywords

__all__ = ["SlurmNodes", "keywords"]
