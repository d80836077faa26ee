"""An engine on a Slurm cluster: agents are Slurm jobs."""

from staves.engines.slurm._nodes import SlurmNodes

__all__ = ["SlurmNodes"]
