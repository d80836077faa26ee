"""What is trained under a schedule, and how remedies bound the batch."""

from __future__ import annotations

from dataclasses import replace
from pydoc_data.topics import topics

import pytest
import torch
from benchmarks.training import schedules
from benchmarks.training.schedule_tasks import CONTEXT, TASKS, Scheduled, _text
from benchmarks.training.schedules import Variant, train


def test_the_text_held_out_is_not_trained_on() -> None:
    train_data, held_out = _text()
    contexts, following = train_data.tensors
    assert contexts.shape == (len(following), CONTEXT)
    assert torch.equal(contexts[1:, -1], following[:-1])
    assert 3_000 < len(held_out[0]) < 6_000
    whole = "".join(topics[name] for name in sorted(topics))
    seen = len(following) + CONTEXT  # characters
    first = "".join(chr(32 + code) for code in held_out[0][0].tolist())
    known = "".join(c if " " <= c < "\x7f" else "\x7f" for c in whole)
    assert first == known[seen : seen + CONTEXT]


@pytest.mark.parametrize("of", TASKS, ids=lambda of: of.name)
def test_a_run_of_the_reference_batch_has_its_budget_of_steps(of: Scheduled) -> None:
    short = replace(of, budget=30)
    run = train(short, Variant(1), seed=0)
    assert (run.steps, run.samples, set(run.batches)) == (30, 30 * of.reference, {of.reference})
    longer = train(short, Variant(1, longer=1.5), seed=0)
    assert longer.steps == 45
    assert longer.seconds > run.seconds


def test_the_last_share_is_trained_at_the_reference_batch() -> None:
    of = replace(TASKS[0], budget=120)
    free = train(of, Variant(), seed=0)
    bound = train(of, Variant(cap=schedules.back(0.5)), seed=0)
    assert max(free.batches[6:]) > of.reference
    assert set(bound.batches[6:]) == {of.reference}
    assert bound.steps > free.steps


def test_caps_are_few_and_never_above_what_is_asked() -> None:
    of = TASKS[0]
    caps = [schedules._stepwise(of, share / 1000) for share in range(1001)]
    assert caps == sorted(caps)
    assert (caps[0], caps[-1], len(set(caps))) == (of.reference, of.most, 13)
    for share, cap in enumerate(caps):
        assert cap <= max(of.reference, share / 1000 * of.most + 1)
