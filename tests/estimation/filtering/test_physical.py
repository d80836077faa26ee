from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.estimation.filtering import NOISE
from staves.estimation.filtering._gaussian import Row
from staves.estimation.filtering._physical import learn_physical
from staves.estimation.filtering._step_form import StepForm
from tests.estimation.filtering.worlds import CELLS, TYPES, space

seeds = st.integers(0, 2**32 - 1)


def draw(rng: np.random.Generator, form: StepForm) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    parameters: np.ndarray[tuple[int], np.dtype[np.float64]] = rng.multivariate_normal(
        form.prior.mean, form.prior.covariance / 4
    )
    return parameters


@given(seeds)
def test_the_form_is_the_formula(seed: int) -> None:
    """Oracle: the formula cell by cell, in seconds and not in logarithms."""
    form = StepForm(space())
    parameters = draw(np.random.default_rng(seed), form)
    found, _ = form.log_throughput(parameters)
    level, rest = parameters[0], parameters[1:]
    names = space().types
    pace, slowing, burden = rest[:3], rest[3], rest[4]
    link, across, across_type = rest[5:8], rest[8], rest[9:12]
    growth, growth_nodes = rest[12], rest[13]
    for value, cell in zip(found, space().cells, strict=True):
        g, n, m = names.index(cell.device_type), cell.devices, cell.nodes
        compute = math.exp(level + pace[g]) * n**slowing
        send = 0.0
        if n > 1:
            send = math.exp(level + burden + link[g]) * (n / 2) ** growth * 2 * (n - 1) / n
        if m > 1:
            send *= math.exp(across + across_type[g]) * (m / 2) ** growth_nodes
        assert math.exp(value) == pytest.approx(n / math.hypot(compute, send), rel=1e-9)


@given(seeds)
def test_its_slopes_are_differences(seed: int) -> None:
    form = StepForm(space())
    parameters = draw(np.random.default_rng(seed), form)
    _, slopes = form.log_throughput(parameters)
    for p in range(len(parameters)):
        step = np.zeros_like(parameters)
        step[p] = 1e-5
        above, below = (form.log_throughput(parameters + sign * step)[0] for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, p], (above - below) / 2e-5, atol=1e-5)


def test_jobs_of_its_own_form_are_found_again() -> None:
    """Of a job of the same kind as past ones, half of the cells tells the others."""
    rng = np.random.default_rng(11)
    form = StepForm(space())
    every = np.arange(len(CELLS))
    truths = [form.log_throughput(draw(rng, form))[0] for _ in range(25)]
    rows = []
    for truth in truths[:20]:
        kept = every[rng.random(len(every)) < 0.7]
        rows.append(Row(kept, truth[kept]))
    model = learn_physical(space(), rows)
    errors = []
    for truth in truths[20:]:
        seen = rng.permutation(every)[:11]
        found = model.predict(Row(seen, truth[seen]), NOISE)
        unseen = np.setdiff1d(every, seen)
        errors.append(np.abs(found.mean - truth)[unseen])
        assert found.variance[seen].max() < found.variance[unseen].max()
    assert np.median(np.concatenate(errors)) < 0.05


def test_without_a_history_it_knows_peaks_and_numbers_of_devices() -> None:
    model = learn_physical(space(), [])
    found = model.predict(Row(np.array([], dtype=np.int64), np.array([])), NOISE)
    alone = [float(found.mean[space().index([cell])[0]]) for cell in CELLS if cell.devices == 1]
    assert [name for _, name in sorted(zip(alone, TYPES, strict=True))] == ["k80", "v100", "a100"]
