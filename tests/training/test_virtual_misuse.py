"""What virtual time refuses: one line that names the argument, with a hint, and nothing trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import staves
from staves.errors import InputError, StavesError, TrainingError
from staves.training import (
    Adaptive,
    Contention,
    Decision,
    Learner,
    Situation,
    System,
    VirtualClock,
    VirtualJob,
    VirtualTrainer,
    VirtualTruth,
)
from staves.training._timing import StepRecord
from tests.training.virtual import truth

TWO = truth([1e-3, 2e-3], [1.0], [1e-3])
DATA = TensorDataset(torch.randn(40, 3), torch.randn(40, 1))

not_numbers = st.sampled_from(["3", "4%", None, [1.0], math.nan, True, 1j, torch.ones(1)])
not_integers = st.one_of(not_numbers, st.floats(), st.just(np.float64(2.0)))


def mean_square(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    return functional.mse_loss(model(batch[0]), batch[1])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(DATA)


class Fixed(System):
    """Decides the same each time, whatever it is."""

    def __init__(self, decision: Any) -> None:
        self.decision = decision
        self.seen: list[Sequence[StepRecord]] = []

    def begin(self, job: VirtualJob) -> None:
        pass

    def decide(self, situation: Situation) -> Decision:
        return self.decision()  # type: ignore[no-any-return]

    def measured(self, records: Sequence[StepRecord]) -> None:
        self.seen.append(records)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def trainer(**changed: Any) -> VirtualTrainer:
    """Return a good one, but for what is changed; a function is called with model and optimizer."""
    model = nn.Linear(3, 1)
    optimizer = sgd(model)
    arguments: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "loss": mean_square,
        "dataset": DATA,
        "truth": VirtualTruth(TWO),
        "batch": 8,
    }
    for name, value in changed.items():
        lazy = name in ("optimizer", "schedule") and callable(value)
        arguments[name] = value(model, optimizer) if lazy else value
    return VirtualTrainer(**arguments)


def refused(
    kind: type[StavesError], message: str, call: Callable[[], object], hint: str | None = None
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert message in caught.value.message
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert hint is None or hint in caught.value.hint


def prepared(what: int) -> Any:
    module = nn.Linear(3, 1)
    return staves.init(batch_size=4).prepare(module, sgd(module))[what]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": None}, "(model): None is no Module"),
        ({"model": nn.Linear}, "(model): the class Linear is no Module"),
        ({"model": nn.ReLU()}, "no parameter to train"),
        ({"model": nn.Linear(3, 1).requires_grad_(False)}, "no parameter to train"),
        ({"model": nn.DataParallel(nn.Linear(3, 1))}, "is a DataParallel"),
        ({"optimizer": "sgd"}, "(optimizer): 'sgd' is no Optimizer"),
        ({"optimizer": None}, "(optimizer): None is no Optimizer"),
        ({"optimizer": lambda *_: sgd(nn.Linear(3, 1))}, "none of the model's"),
        ({"schedule": "cosine"}, "(schedule): 'cosine' is no LRScheduler"),
        ({"schedule": lambda *_: StepLR(sgd(nn.Linear(3, 1)), 1)}, "another optimizer's"),
        ({"schedule": lambda _, own: ReduceLROnPlateau(own)}, "waits for a metric"),
        ({"loss": None}, "(loss): None is no function"),
        ({"dataset": Stream()}, "is a stream"),
        ({"dataset": iter([1, 2])}, "is a stream"),
        ({"dataset": DataLoader(DATA)}, "this is a DataLoader"),
        ({"dataset": []}, "VirtualTrainer: the data set is empty"),
        ({"dataset": None}, "without length"),
        ({"truth": TWO}, "is no VirtualTruth"),
        ({"truth": None}, "None is no VirtualTruth"),
        ({"system": Learner}, "the class Learner is no System"),
        ({"system": "ours"}, "'ours' is no System"),
        ({"system": 0}, "0 is no System"),
        ({"seed": -1}, "(seed): -1 is outside of 0 to 2^63 - 1"),
        ({"seed": 2**63}, "outside of 0 to 2^63 - 1"),
        ({"seed": 1.5}, "(seed): 1.5 is not an integer"),
        ({"seed": None}, "(seed): None is not an integer"),
        ({"batch": "8"}, "(batch): '8' is not a positive integer"),
        ({"num_workers": 2}, "num_workers cannot be given"),
        ({"num_workers": -1}, "num_workers cannot be given"),
        ({"batch_size": 4}, "batch_size cannot be given"),
        ({"sampler": [1]}, "sampler cannot be given"),
        ({"batch_sampler": [[1]]}, "batch_sampler cannot be given"),
        ({"length": 40}, "length is for a stream"),
        ({"drop_last": True, "batch": 41}, "VirtualTrainer: drop_last leaves nothing of 40"),
        ({"num_wokers": 2}, "there is no option 'num_wokers'"),
        ({"optimiser": 2}, "there is no option 'optimiser'"),
        ({"prefetch_factor": 2}, "torch's DataLoader refuses these options: prefetch_factor"),
        ({"timeout": "1s"}, "torch's DataLoader refuses these options"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_trainer_refuses(changed: dict[str, Any], message: str) -> None:
    refused(InputError, message, lambda: trainer(**changed))


def test_prepared_objects_are_not_trained_in_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    refused(InputError, "is prepared already", lambda: trainer(model=prepared(0)))
    refused(InputError, "is prepared already", lambda: trainer(optimizer=prepared(1)))


def test_a_misspelt_option_is_recognised_and_harmless_ones_are_taken() -> None:
    refused(
        InputError, "num_wokers", lambda: trainer(num_wokers=2), hint="did you mean 'num_workers'?"
    )
    taken = trainer(num_workers=0, batch_size=None, sampler=None, shuffle=False, pin_memory=False)
    assert len(list(taken.steps(3))) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_real_loader_refuses_options_likewise(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    dataset: Any = Stream() if stream else DATA
    for options, message in (
        ({"num_wokers": 2}, "run.loader: there is no option 'num_wokers'"),
        ({"num_workers": -1}, "run.loader: torch's DataLoader refuses these options: num_workers"),
        ({"prefetch_factor": 2}, "run.loader: torch's DataLoader refuses"),
    ):
        run = staves.init(batch_size=4)
        refused(InputError, message, lambda run=run, o=options: run.loader(dataset, **o))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda model, batch: torch.tensor(1.0), "the loss has no gradient"),
        (lambda model, batch: mean_square(model, batch).detach(), "the loss has no gradient"),
        (lambda model, batch: None, "the loss is a NoneType"),
        (lambda model, batch: 1.0, "the loss is a float"),
        (lambda model, batch: model(batch[0]), "the loss is of shape"),
        (lambda model, batch: math.nan * mean_square(model, batch), "step 0 is not finite"),
        (lambda model, batch: math.inf * mean_square(model, batch), "step 0 is not finite"),
    ],
)
@pytest.mark.parametrize("batch", [8, Adaptive(8, max=32)], ids=["fixed", "adaptive"])
def test_a_loss_that_cannot_be_trained_by(
    loss: Callable[..., Any], message: str, batch: int | Adaptive
) -> None:
    model = nn.Linear(3, 1)
    before = [parameter.clone() for parameter in model.parameters()]
    job = VirtualTrainer(model, sgd(model), loss, DATA, VirtualTruth(TWO), batch=batch)
    refused(TrainingError, message, lambda: next(job.steps(1)))
    for now, then in zip(model.parameters(), before, strict=True):
        assert torch.equal(now, then)


def test_where_one_share_of_one_step_is_not_finite_the_steps_before_stand() -> None:
    calls = 0

    def spoilt(model: nn.Module, batch: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return mean_square(model, batch) * (math.nan if calls == 6 else 1.0)

    job = trainer(loss=spoilt)
    steps = job.steps(9)
    assert [next(steps).number, next(steps).number] == [0, 1]
    with pytest.raises(TrainingError, match="the loss of step 2 is not finite"):
        next(steps)
    assert len(list(job.steps(1))) == 1  # the same samples again


@given(not_integers | st.integers(max_value=0))
def test_steps_are_counted(count: Any) -> None:
    if count is None:
        return
    job = trainer()
    refused(InputError, "steps(count)", lambda: job.steps(count))
    assert job.clock == 0.0


@pytest.mark.parametrize("progress", ["a", math.nan, math.inf, 0, -1.0, True, 10**400])
def test_progress_is_a_positive_number(progress: Any) -> None:
    refused(InputError, "steps(progress)", lambda: trainer().steps(progress=progress))


@given(not_numbers | st.floats(max_value=-1e-9) | st.just(math.inf) | st.just(10**400))
def test_a_truth_is_of_numbers(wrong: Any) -> None:
    refused(InputError, "VirtualTruth.jitter", lambda: VirtualTruth(TWO, wrong))
    refused(InputError, "VirtualTruth.pause", lambda: VirtualTruth(TWO, pause_seconds=wrong))
    refused(InputError, "Contention.factor", lambda: Contention(0, wrong))


@given(not_numbers)
def test_contention_begins_and_ends_at_numbers(wrong: Any) -> None:
    refused(InputError, "Contention.start", lambda: Contention(0, 2.0, wrong))
    refused(InputError, "Contention.stop", lambda: Contention(0, 2.0, 0, wrong))


@given(st.text() | not_numbers)
def test_contention_has_a_known_unit(unit: Any) -> None:
    if unit not in ("steps", "seconds"):
        refused(InputError, "Contention.unit", lambda: Contention(0, 3.0, 10, 20, unit))


def test_units_that_are_nearly_right_are_named() -> None:
    refused(
        InputError,
        "Contention.unit: 'step' is no unit",
        lambda: Contention(0, 3.0, 10, 20, "step"),  # type: ignore[arg-type]
        hint="did you mean 'steps'?",
    )
    refused(
        InputError,
        "'minutes' is no unit",
        lambda: Contention(0, 3.0, 10, 20, "minutes"),  # type: ignore[arg-type]
        hint="known: seconds, steps",
    )


@given(not_integers)
def test_contention_is_of_a_device_by_its_place(device: Any) -> None:
    refused(InputError, "Contention.device", lambda: Contention(device, 2.0))


@pytest.mark.parametrize(
    ("contention", "message"),
    [
        (Contention(0, 2.0), "is no tuple"),
        (None, "None is no tuple"),
        ("0", "contention[0]: '0' is no Contention"),
        ((0, 2.0), "contention[0]: 0 is no Contention"),
        ((Contention(0, 2.0), Contention(2, 2.0)), "contention[1].device: 2 is none of the 2"),
        ((Contention(-1, 2.0),), "contention[0].device: -1 is none of the 2"),
        (tuple(Contention(1, 1e300) for _ in range(2)), "the slowest time"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contention_that_is_none(contention: Any, message: str) -> None:
    refused(InputError, message, lambda: VirtualTruth(TWO, contention=contention))


def test_a_list_of_contention_is_as_good_as_a_tuple() -> None:
    contention = [Contention(np.int64(1), 2.0)]  # type: ignore[arg-type]
    of = VirtualTruth(TWO, contention=contention)  # type: ignore[arg-type]
    assert of == VirtualTruth(TWO, contention=(Contention(1, 2.0),))
    contention.clear()
    assert of.at(0, 0.0) != TWO


@pytest.mark.parametrize("model", [None, "x", TWO.devices])
def test_a_truth_has_a_model(model: Any) -> None:
    refused(InputError, "is no StepTimeModel", lambda: VirtualTruth(model))


@given(st.lists(not_integers, min_size=1, max_size=3) | st.sampled_from([8, None, "44"]))
def test_a_decision_is_of_whole_samples(batches: Any) -> None:
    refused(InputError, "Decision.local_batches", lambda: Decision(batches))


@given(not_integers | st.integers(max_value=0))
def test_a_decision_has_a_micro_step_at_least(micro_steps: Any) -> None:
    refused(InputError, "Decision.micro_steps", lambda: Decision((4, 4), micro_steps))


@pytest.mark.parametrize("kind", [tuple, list, np.array], ids=["tuple", "list", "array"])
def test_a_decision_is_the_same_whatever_holds_its_integers(kind: Callable[[Any], Any]) -> None:
    assert Decision(kind([5, 3]), np.int64(2)) == Decision((5, 3), 2)  # type: ignore[arg-type]
    system = Fixed(lambda: Decision(kind([5, 3])))
    assert [step.local_batches for step in trainer(system=system).steps(3)] == [(5, 3)] * 3
    assert len(system.seen) == 3


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (None, "the system decides None, which is no Decision"),
        ([4, 4], "the system decides [4, 4], which is no Decision"),
        ((4, 4), "which is no Decision"),
        (Decision, "which is no Decision"),
        (Decision((4, 5)), "the system decides [4, 5] in 1 micro-steps"),
        (Decision((8,)), "the system decides [8]"),
        (Decision(()), "the system decides []"),
        (Decision((9, -1)), "the system decides [9, -1]"),
        (Decision((4, 4), 9), "9 micro-steps for 8 samples"),
        (Decision((4, 4), 10**9), "micro-steps for 8 samples"),
    ],
    ids=str,
)
def test_what_a_system_must_not_decide(decision: Any, message: str) -> None:
    job = trainer(system=Fixed(lambda: decision))
    refused(TrainingError, message, lambda: next(job.steps(1)), hint="")
    assert job.clock == 0.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-3, 12), max_size=4), st.integers(1, 12))
def test_any_split_of_integers_trains_or_is_refused(batches: list[int], micro_steps: int) -> None:
    good = len(batches) == 2 and sum(batches) == 8 and min(batches) >= 0 and micro_steps <= 8
    job = trainer(system=Fixed(lambda: Decision(tuple(batches), micro_steps)))
    if good:
        assert next(job.steps(1)).local_batches == tuple(batches)
    else:
        refused(TrainingError, "the system decides", lambda: next(job.steps(1)))


@pytest.mark.parametrize("split", ["fast", 5, None, {4: 4}])
def test_a_learner_takes_a_split(split: Any) -> None:
    refused(InputError, "Learner(split)", lambda: Learner(split))


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        ((-1, 0.0, None), "Situation.step"),
        ((0.5, 0.0, None), "Situation.step"),
        ((0, -1.0, None), "Situation.clock"),
        ((0, "now", None), "Situation.clock"),
        ((0, 0.0, math.nan), "Situation.noise_scale"),
        ((0, 0.0, -2.0), "Situation.noise_scale"),
        ((0, 0.0, "large"), "Situation.noise_scale"),
    ],
)
def test_a_situation_is_of_numbers(situation: Any, message: str) -> None:
    refused(InputError, message, lambda: Situation(*situation))


def test_the_clock_by_itself_refuses_likewise() -> None:
    of, job = VirtualTruth(TWO), VirtualJob.on(TWO.devices, 8, None)
    clocks: list[Any] = [
        (lambda: VirtualClock(TWO, Learner(), job), "is no VirtualTruth"),  # type: ignore[arg-type]
        (lambda: VirtualClock(of, Learner, job), "the class Learner is no System"),  # type: ignore[arg-type]
        (lambda: VirtualClock(of, Learner(), 8), "8 is no VirtualJob"),  # type: ignore[arg-type]
        (lambda: VirtualClock(of, Learner(), job, seed=-1), "(seed): -1"),
        (lambda: VirtualJob.on(TWO.devices, 0, None), "0 is not a positive integer"),
    ]
    for make, message in clocks:
        refused(InputError, message, make)
    clock = VirtualClock(of, Learner(), job)
    refused(TrainingError, "nothing was decided", clock.advance)
    refused(InputError, "Situation.noise_scale", lambda: clock.decide(math.nan))
    clock.decide()
    for split in ((4,), (4, 4, 0), (4.5, 3.5), (9, -1)):
        refused(
            InputError,
            "advance(local_batches)",
            lambda split=split: clock.advance(split),  # type: ignore[misc]
        )
    assert clock.seconds == 0.0
    assert clock.advance((2, 1)) > 0
