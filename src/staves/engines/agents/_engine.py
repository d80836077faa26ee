"""An engine for several nodes: each attempt has a supervisor here, and agents on the nodes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from staves.engines._base import Launch
from staves.engines.agents._nodes import Nodes
from staves.engines.agents._recall import NODES_FILE, document_of
from staves.engines.local._attempt import AttemptFolder
from staves.engines.local._engine import LocalEngine
from staves.errors import StavesError
from staves.hardware import Cluster, Device

logger = logging.getLogger(__name__)

_REFRESH = 3.0  # seconds


class AgentEngine(LocalEngine):
    """Runs attempts on the nodes of a cluster.

    The supervisor of an attempt is a process of this machine, as the local engine's; it has agents
    started where it was told devices, and ends them. Folders that jobs use must be the same on all
    nodes.

    Args:
        home: the folder of everything Staves keeps.
        nodes: the cluster.
        interface: which addresses are used, as of `STAVES_INTERFACE`, which is taken where None.

    Raises:
        StavesError: the cluster does not answer.
    """

    def __init__(self, home: Path, nodes: Nodes, *, interface: str | None = None) -> None:
        self._nodes = nodes
        self._interface = interface or os.environ.get("STAVES_INTERFACE") or None
        super().__init__(home, nodes.discover())
        self._asked, self._asking = time.monotonic(), threading.Lock()
        self._problem = ""
        self.name = nodes.name

    def cluster(self) -> Cluster:
        """Return the nodes and devices there are now, as of a few seconds ago at most.

        A cluster that does not answer is taken to be as it was.
        """
        due = time.monotonic() - self._asked >= _REFRESH
        if due and self._asking.acquire(blocking=False):
            threading.Thread(target=self._discover, name="staves-discover", daemon=True).start()
        return self._cluster

    def _discover(self) -> None:
        try:
            self._cluster = self._nodes.discover()
            problem = ""
        except StavesError as error:
            problem = str(error)
        finally:
            self._asked = time.monotonic()
            self._asking.release()
        if problem and problem != self._problem:
            logger.warning("%s: %s", self.name, problem)
        self._problem = problem

    def _admit(self, folder: AttemptFolder, launch: Launch) -> None:
        document = document_of(self._nodes, self._interface)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.write(NODES_FILE, document)  # before the launch is there, and may be found
        except OSError as error:
            raise StavesError(
                f"{folder.path}: {error.strerror or error}",
                hint="set STAVES_HOME to a folder with space that you may write",
            ) from None
        super()._admit(folder, launch)

    def _local_ranks(self, devices: Sequence[Device]) -> dict[str, int]:
        """Return places among these devices: where on its node a GPU is, its agent knows."""
        return {device.name: rank for rank, device in enumerate(devices)}
