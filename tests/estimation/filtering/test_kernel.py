from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from staves.estimation.filtering._kernel import Residual, combined, fit_variances, parts
from tests.estimation.filtering.worlds import covariance, space

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_any_variances_make_a_covariance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    similarities = parts(space())
    variances = {name: float(10 ** rng.uniform(-6, 2)) for name in similarities}
    kernel = combined(similarities, variances)
    np.testing.assert_allclose(kernel, kernel.T)
    assert np.linalg.eigvalsh(kernel).min() > 0


@given(seeds)
@settings(max_examples=25)
def test_no_round_makes_the_history_less_likely(seed: int) -> None:
    """Oracle: SciPy's density of each job, with and without a covariance beside the kernel's."""
    rng = np.random.default_rng(seed)
    similarities = parts(space())
    names = list(rng.permutation(list(similarities))[:4])
    residuals = []
    for _ in range(4):
        cells = rng.permutation(len(space()))[: int(rng.integers(1, 9))].astype(np.int64)
        beside = covariance(rng, len(cells)) if rng.random() < 0.5 else None
        residuals.append(Residual(cells, rng.normal(size=len(cells)), beside))

    def likelihood(variances: dict[str, float]) -> float:
        kernel = combined(similarities, variances)
        total = 0.0
        for one in residuals:
            own = kernel[np.ix_(one.cells, one.cells)]
            own = own if one.beside is None else own + one.beside
            total += float(multivariate_normal(cov=own).logpdf(one.values))
        return total

    variances = {str(name): float(10 ** rng.uniform(-2, 1)) for name in names}
    before = likelihood(variances)
    for _ in range(5):
        variances = fit_variances(similarities, residuals, variances, 1)
        now = likelihood(variances)
        assert now >= before - 1e-3
        before = now


def test_variances_are_found_again() -> None:
    rng = np.random.default_rng(3)
    similarities = parts(space())
    true = {"job": 1.0, "type": 0.2, "nodes": 0.3, "cell": 0.05}
    root = np.linalg.cholesky(combined(similarities, true))
    cells = np.arange(len(space()))
    residuals = [Residual(cells, root @ rng.normal(size=len(cells))) for _ in range(400)]
    found = fit_variances(similarities, residuals, dict.fromkeys(true, 1.0), 100)
    for name, variance in true.items():
        assert abs(found[name] / variance - 1) < 0.25, name
