from __future__ import annotations

from typing import Any

import pytest

from tests.elastic.driver import alone


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process ends with."""
    return alone(tmp_path_factory.mktemp("alone"))
