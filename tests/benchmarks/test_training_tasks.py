"""The training benchmark's workloads: their shape, and what their generators promise."""

from __future__ import annotations

import pytest
import torch
from benchmarks.training import workloads
from benchmarks.training.declared import MIXES, WORKLOADS, Workload, truth
from benchmarks.training.frozen import FINGERPRINT, fingerprint
from torch import nn


def test_the_declaration_is_the_one_that_was_frozen() -> None:
    assert fingerprint() == FINGERPRINT, "what is declared may not change any more"


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_tasks_start_from_their_seed_and_know_no_other_sample_of_the_batch(
    workload: Workload,
) -> None:
    one, same, other = (workload.make(seed, workload.learning_rate) for seed in (3, 3, 4))
    for a, b in zip(one.model.parameters(), same.model.parameters(), strict=True):
        assert torch.equal(a, b)
    batch = one.data.__getitems__(list(range(12)))
    with torch.no_grad():
        whole = one.loss(one.model, batch)
        assert whole.isfinite()
        assert float(whole) != float(other.loss(other.model, batch))
        # Every split of a batch has the same mean gradient, because losses are means of samples'.
        parts = [one.loss(one.model, [t[k : k + 4] for t in batch]) for k in (0, 4, 8)]
    assert float(whole) == pytest.approx(float(torch.stack(parts).mean()), rel=1e-5)
    layers = [type(module) for module in one.model.modules()]
    assert not any(issubclass(each, nn.modules.batchnorm._BatchNorm) for each in layers)
    assert workload.max_batch >= 64 * workload.reference


def test_spoken_symbols_differ_from_the_one_before_and_fit_into_their_frames() -> None:
    data = workloads.speech(0, 0.01).data
    _, lengths, symbols, counts = (tensor[:500] for tensor in data.tensors)
    for length, word, count in zip(lengths, symbols, counts, strict=True):
        said = word[:count]
        assert (said > 0).all()
        assert (word[count:] == 0).all()
        assert (said[1:] != said[:-1]).all()
        assert 3 * count <= length <= 5 * count
        assert (length + 1) // 2 >= count  # CTC can align them


def test_mixes_are_the_declared_ones() -> None:
    first, second, third = MIXES
    kinds = [kind for kind, _ in first.devices]
    assert [kinds.count(kind) for kind in ("a100", "v100", "rtx6000")] == [4, 4, 8]
    assert [speed for _, speed in second.devices] == [1.0, 0.45, 0.2]
    assert third.contended == ((3, 3.0),)
    workload = WORKLOADS[0]
    free, contended = (truth(workload, third).model, truth(workload, third).at(0, 0.0))
    assert contended.devices[3].forward.per_sample == 3 * free.devices[3].forward.per_sample
    assert contended.devices[0] == free.devices[0]
