"""BatchNorm's running statistics while ranks come, go and are lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.elastic.driver import job
from tests.elastic.scripts.norms import CENTRE, EPOCHS

SCRIPT = Path(__file__).parent / "scripts" / "norms.py"


@pytest.mark.soak
def test_all_members_of_a_pass_end_it_with_the_same(tmp_path: Path) -> None:
    with job(tmp_path, 3, script=SCRIPT) as running:
        running.until_world(3)
        running.scale(2)
        running.until_world(2)
        running.scale(3)
        running.until_world(3)
        running.kill(running.members()[0])
        running.finish()
        running.prove()
    shared = 0
    for epoch in range(EPOCHS):
        ends = [torch.load(path) for path in tmp_path.glob(f"norms-*-{epoch}.pt")]
        assert ends, "some member came to the end of it"
        shared += len(ends) > 1
        for name, value in ends[0].items():
            assert all(torch.equal(end[name], value) for end in ends[1:]), (epoch, name)
    assert shared > EPOCHS // 2
    assert (ends[0]["running_mean"] - CENTRE).abs().max() < 0.5
