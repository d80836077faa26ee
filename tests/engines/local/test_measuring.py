"""What the split gains, measured on each set of devices; on emulated ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from staves.engines.local import LocalEngine
from staves.hardware import parse_cluster
from staves.testing._engine_job import Job

CLUSTER = """
types:
  fast: {emulate: {forward: {fixed: 1ms, per_sample: 0.2ms}, backward: {fixed: 1ms, per_sample: 0.4ms}}}
  slow: {emulate: {forward: {fixed: 1ms, per_sample: 1ms}, backward: {fixed: 1ms, per_sample: 2ms}}}
nodes: [{name: box, devices: {fast: 1, slow: 2}}]
"""  # noqa: E501
LEARNED = 30  # steps after which the lines of both types are known
MEASURED = 15  # steps after which a comparison is over


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(lambda: LocalEngine(tmp_path / "home", parse_cluster(CLUSTER)), tmp_path / "work")
    yield job
    job.abandon()


@pytest.mark.parametrize("measure", [True, False])
def test_an_even_split_is_measured_on_known_devices_where_that_is_wanted(
    job: Job, measure: bool
) -> None:
    fast, slow, other = job.devices
    job.train([fast, slow], steps=LEARNED, STAVES_MEASURE_EVEN="1" if measure else "")
    job.until(lambda _: job.committed() >= LEARNED - 1, "what is to be learned")
    job.resize([fast, other], request=1)
    job.until_on([fast, other])
    job.allow(job.committed() + MEASURED)
    job.until(lambda status: status.spans[-1]["steps"] >= MEASURED, "a comparison", crawl=True)
    job.allow(None)
    status = job.end()
    assert status.ended is not None
    assert status.ended.end == "finished", job.log()
    first, second = status.spans[0], status.spans[-1]  # one device alone in between, perhaps
    assert first["even_step_source"] == "measured", "it was how the devices were learned"
    assert second["even_step_source"] == ("measured" if measure else "predicted")
    assert second["even_step_seconds"] > 0
    assert second["local_batches"][0] > second["local_batches"][1]
    assert second["predicted_step_seconds"] > 0
    assert status.knowledge is not None
    assert {fast.name, slow.name, other.name} <= set(status.knowledge["lines"])
    job.prove()
