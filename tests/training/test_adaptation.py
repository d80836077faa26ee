"""What a run with an adaptive batch knows of itself."""

from __future__ import annotations

import math
import re
from itertools import groupby
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import staves
from staves.convergence import NoiseScale, RunningNoiseScale
from staves.errors import InputError
from staves.training import GlobalCursor
from staves.training._adaptation import Adaptation
from staves.training._batch_choice import BatchRange
from staves.training._figures import Figures
from staves.training._noise import Measured
from staves.training._progress import Progress


def sgd() -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)


def measured(scale: float, batch: int = 32, *, preconditioned: bool = False) -> Measured:
    return Measured(NoiseScale(1.0, scale), batch, preconditioned)


def settled(scale: float, **options: Any) -> Adaptation:
    """With a noise scale that has been measured for a while."""
    adaptation = Adaptation(staves.Adaptive(32, **options))
    for step in range(20):
        adaptation.committed(32, measured(scale * (1 + 1e-6 * (-1) ** step)))
    return adaptation


@given(st.lists(st.integers(1, 500), min_size=1, max_size=60), st.floats(1, 256))
def test_a_schedule_moves_once_for_every_reference_batch_of_progress(
    batches: list[int], scale: float
) -> None:
    adaptation = settled(scale)
    before, moves = math.floor(adaptation.progress), 0
    for batch in batches:
        moves += adaptation.schedule_moves(batch)
        adaptation.committed(batch, None)
    assert moves == math.floor(adaptation.progress) - before


def test_progress_is_the_sum_of_gains_and_short_batches_count_as_steps() -> None:
    adaptation = settled(64.0)
    assert adaptation.progress == 20
    assert adaptation.gain(32) == adaptation.gain(5) == 1.0
    assert adaptation.gain(128) == pytest.approx(4 * (64 + 32) / (64 + 128), rel=1e-5)
    adaptation.committed(128, None)
    assert adaptation.progress == pytest.approx(22, rel=1e-5)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("pinned", [16, 10, 63])
def test_below_the_reference_passes_stay_passes(pinned: int, known: bool) -> None:
    """1024 samples, a reference of 64: a pass is worth 16 steps of it, whatever is measured."""
    adaptation = Adaptation(staves.Adaptive(64), pinned=pinned)
    adaptation.target = 8 * 16.0
    samples = 0
    while not adaptation.complete:
        adaptation.committed(pinned, measured(64.0, pinned) if known else None)
        samples += pinned
    assert 8 * 1024 <= samples < 8 * 1024 + pinned
    assert adaptation.gain(1) == adaptation.gain(pinned) == pinned / 64, "a short last batch"
    adam = torch.optim.AdamW(nn.Linear(1, 1).parameters())
    assert adaptation.learning_rate_factor(pinned, sgd()) == pinned / 64
    assert adaptation.learning_rate_factor(pinned, adam) == pytest.approx((pinned / 64) ** 0.5)


@given(st.lists(st.integers(33, 500), min_size=1, max_size=30), st.floats(1, 256), st.integers(1))
def test_a_schedule_ends_with_training(batches: list[int], scale: float, target: int) -> None:
    adaptation = settled(scale)  # which has made 20 moves
    target = adaptation.target = 20 + target % 40 + 1
    moves, place = 20, 0
    while not adaptation.complete:
        batch = batches[place % len(batches)]
        moves += adaptation.schedule_moves(batch)
        adaptation.committed(batch, None)
        assert moves <= target
        place += 1
    assert moves == target
    adaptation.target = target + 10.0  # a second loop
    while not adaptation.complete:
        moves += adaptation.schedule_moves(100)
        adaptation.committed(100, None)
    assert moves == target + 10


def test_moves_made_go_with_the_state() -> None:
    adaptation = settled(64.0)
    adaptation.target = 21.0
    adaptation.committed(128, None)  # worth two steps: one beyond the target
    document = adaptation.to_document()
    other = Adaptation(staves.Adaptive(32))
    other.load_document(document)
    other.target = 31.0
    for _ in range(9):
        assert other.schedule_moves(32) >= 1
        other.committed(32, None)
    assert other.complete
    assert other.to_document()["moves"] == 31


def test_the_factor_told_is_that_of_a_whole_batch() -> None:
    adaptation = settled(64.0, learning_rate="linear")
    adaptation.batch = 128
    assert adaptation.learning_rate_factor(128, sgd()) == 4.0
    assert adaptation.learning_rate_factor(48, sgd()) == 1.5
    assert adaptation.factor == 4.0


def test_what_is_not_known_is_not_told() -> None:
    unknown = Adaptation(staves.Adaptive(32))
    for step in range(20):  # the gradient cannot be told from 0
        unknown.committed(32, Measured(NoiseScale((-1.0) ** step, 0.0), 32, False))
    assert unknown.running.interval() == (0.0, math.inf)
    assert (unknown.acted_on, unknown.noise_scale) == (0.0, None)
    assert unknown.describe_noise() == "noise scale not known yet"
    assert unknown.goodput(64, 0.5) is None
    assert unknown.goodput(32, 0.5) == 64.0
    figures = Figures(None)
    figures.adaptation = unknown
    assert figures.adaptive()["noise_scale"] is None
    known = settled(64.0)
    assert known.describe_noise() == "noise scale 64"
    assert known.goodput(128, 0.5) == pytest.approx(2 * 32 / 0.5, rel=1e-5)
    least = Adaptation(staves.Adaptive(32))
    for step in range(20):
        least.committed(32, Measured(NoiseScale(0.01 + (-1.0) ** step, 64.0), 32, False))
    assert math.isinf(least.running.interval()[1])
    assert least.describe_noise() == f"noise scale >= {least.noise_scale:.0f}"


def test_nothing_is_gained_before_anything_is_known() -> None:
    adaptation = Adaptation(staves.Adaptive(32))
    assert adaptation.noise_scale is None
    assert adaptation.gain(320) == pytest.approx(1.0)


def test_rules_by_optimizer() -> None:
    adam = torch.optim.AdamW(nn.Linear(1, 1).parameters())
    auto, worth = settled(64.0), pytest.approx(2.0, rel=1e-5)
    assert auto.learning_rate_factor(128, sgd()) == worth
    assert auto.learning_rate_factor(128, adam) == 2.0
    assert auto.learning_rate_factor(288, adam) == 3.0
    assert settled(64.0, learning_rate="linear").learning_rate_factor(128, adam) == 4.0
    assert settled(64.0, learning_rate="none").learning_rate_factor(128, adam) == 1.0
    assert settled(64.0, learning_rate="adascale").learning_rate_factor(128, adam) == worth
    for optimizer in (sgd(), adam):
        assert auto.learning_rate_factor(32, optimizer) == 1.0
    with pytest.raises(InputError, match="no rule"):
        staves.Adaptive(32, learning_rate="cubic")  # type: ignore[arg-type]


def test_what_may_be_chosen() -> None:
    assert Adaptation(staves.Adaptive(32, max=256)).allowed(10_000) == BatchRange(32, 32, 256)
    assert Adaptation(staves.Adaptive(32, max=256)).allowed(100) == BatchRange(32, 32, 100)
    assert Adaptation(staves.Adaptive(32)).allowed(10_000) == BatchRange(32, 32, 10_000)
    assert not Adaptation(staves.Adaptive(32)).allowed(20).adaptive
    pinned = Adaptation(staves.Adaptive(32), pinned=128)
    assert (pinned.batch, pinned.allowed(10_000)) == (128, BatchRange(32, 128, 128))


def test_another_norm_starts_another_average() -> None:
    adaptation = settled(64.0)
    adaptation.committed(32, measured(7.0, preconditioned=True))
    assert adaptation.running.steps == 1
    adaptation.committed(32, measured(7.0, preconditioned=True))
    assert adaptation.running.steps == pytest.approx(2, rel=1e-2)


class Length:
    """As much of a loader as progress asks for."""

    def __init__(self, length: int = 320, reference: int = 32) -> None:
        self.cursor, self.reference = GlobalCursor(length, 0), reference

    def __len__(self) -> int:
        return self.steps_at(self.reference)

    @property
    def samples(self) -> int:
        return self.cursor.length

    def steps_at(self, batch: int) -> int:
        return self.cursor.batches_per_epoch(batch)

    def reissue(self) -> None: ...


def progress(adaptation: Adaptation | None) -> Progress:
    made = Progress(Figures(None), seed=0)
    made.adaptation = adaptation
    return made


def test_state_goes_to_joiners_and_into_checkpoints() -> None:
    first = settled(64.0)
    first.batch = 96
    first.leave_out(2.5)
    saved = progress(first).capture()
    second = Adaptation(staves.Adaptive(32))
    progress(second).load(saved)
    assert second.to_document() == first.to_document()
    assert second.noise_scale == first.noise_scale
    smaller = Adaptation(staves.Adaptive(32, max=64))
    progress(smaller).load(saved)
    assert smaller.batch == 64


def test_older_states_and_those_of_a_fixed_batch_load() -> None:
    for fixed in (progress(None).capture(), progress(None).capture()):
        fixed["progress"]["figures"]["steps"] = 7
        adaptation = Adaptation(staves.Adaptive(32))
        progress(adaptation).load(fixed)
        assert (adaptation.progress, adaptation.batch) == (7.0, 32)
    del fixed["progress"]["adaptation"], fixed["progress"]["figures"]["even_batch"]
    progress(Adaptation(staves.Adaptive(32))).load(fixed)
    progress(None).load(progress(settled(64.0)).capture())


@given(
    st.integers(1, 5000),
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(0, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_another_reference_leaves_as_many_passes_to_make(
    length: int, before: int, after: int, passes: int, share: float
) -> None:
    first = progress(Adaptation(staves.Adaptive(before)))
    first.take_loader(Length(length, before))  # type: ignore[arg-type]
    assert first.adaptation is not None
    first.adaptation.progress = passes * -(-length // before)
    first.adaptation.leave_out(share * -(-length // before))
    second = progress(Adaptation(staves.Adaptive(after)))
    second.take_loader(Length(length, after))  # type: ignore[arg-type]
    second.aim(passes + 1)
    second.load(first.capture())
    adaptation = second.adaptation
    assert adaptation is not None
    assert adaptation.target is not None
    done = adaptation.to_document()
    reached = done["progress"] + done["left_out"]
    assert adaptation.target - reached == pytest.approx((1 - share) * -(-length // after))
    second.aim(-1)  # as many passes as were made
    assert adaptation.complete


def test_what_was_seen_of_the_noise_scale_counts_in_the_new_reference() -> None:
    first, second = settled(64.0), Adaptation(staves.Adaptive(128))
    saved = progress(first).capture()
    progress(second).load(saved)
    assert second.running.seen == pytest.approx(first.running.seen / 4)
    assert second.progress == pytest.approx(first.progress / 4)
    del saved["progress"]["adaptation"]["reference"]  # an older state
    progress(second).load(saved)
    assert second.progress == first.progress


@given(
    st.floats(0, 100),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 319)), min_size=1, max_size=4),
)
def test_progress_goes_on_behind_runs_of_a_fixed_batch(
    worth: float, places: list[tuple[int, int]]
) -> None:
    """However many of them there are: their passes count at the reference batch."""
    first = progress(Adaptation(staves.Adaptive(32)))
    loader = Length()
    first.take_loader(loader)  # type: ignore[arg-type]
    assert first.adaptation is not None
    first.adaptation.progress = worth
    loader.cursor.epoch, loader.cursor.position = 1, 160
    state = first.capture()
    for epochs, position in places:
        fixed = progress(None)
        loader = Length()
        fixed.take_loader(loader)  # type: ignore[arg-type]
        fixed.load(state)
        loader.cursor.epoch += 1 + epochs
        loader.cursor.position = position
        state = fixed.capture()
    last = progress(Adaptation(staves.Adaptive(32)))
    last.take_loader(Length())  # type: ignore[arg-type]
    last.load(state)
    assert last.adaptation is not None
    passes = sum(1 + epochs for epochs, _ in places) + (places[-1][1] - 160) / 320
    assert last.adaptation.progress == pytest.approx(worth + 10 * passes)
    again = progress(Adaptation(staves.Adaptive(32)))
    again.take_loader(Length())  # type: ignore[arg-type]
    again.load(last.capture())  # once, not at every load
    assert again.adaptation is not None
    assert again.adaptation.progress == last.adaptation.progress


def test_a_run_of_a_fixed_batch_alone_counts_by_its_passes() -> None:
    fixed = progress(None)
    loader = Length()
    fixed.take_loader(loader)  # type: ignore[arg-type]
    loader.cursor.epoch, loader.cursor.position = 2, 80
    fixed.figures.steps = 7
    last = progress(Adaptation(staves.Adaptive(32)))
    last.take_loader(Length())  # type: ignore[arg-type]
    last.load(fixed.capture())
    assert last.adaptation is not None
    assert last.adaptation.progress == 22.5


def test_the_end_is_a_matter_of_progress() -> None:
    made = progress(settled(64.0))
    made.take_loader(Length())  # type: ignore[arg-type]
    adaptation = made.adaptation
    assert adaptation is not None
    made.aim(2)
    assert adaptation.target == 20
    assert made.reached(2, epoch=1)
    made.aim(3)  # a second loop goes on behind the first
    assert adaptation.target == 50
    assert not made.reached(5, epoch=9)
    adaptation.committed(32, None)
    assert adaptation.samples_left(21 * 32) == pytest.approx(29 * 32)
    made.break_off()  # a whole pass is left out: its ten steps count
    assert adaptation.samples_left(21 * 32) == pytest.approx(19 * 32)
    made.aim(None)
    assert not made.reached(5, epoch=4)
    assert made.reached(5, epoch=5)


def test_changes_of_batch_are_told_on_one_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    told = {}
    for size in (staves.Adaptive(4, max=64), 4):
        run = staves.init(batch_size=size)
        module = nn.Linear(1, 1)
        model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.0))
        batches = run.loader(torch.utils.data.TensorDataset(torch.randn(2000, 1)))
        used = [4]
        for _ in run.epochs(1):
            for (inputs,) in batches:
                run.backward(model(inputs).mean())
                optimizer.step()
                optimizer.zero_grad()
                if run.batch_size != used[-1]:
                    used.append(run.batch_size)
                if run.committed_steps >= 40:
                    break
        lines = re.findall(r"step \d+: batch (?:\d+ -> )?(\d+)", capsys.readouterr().err)
        changes = [int(batch) for batch, _ in groupby(lines)]  # a plan may be new at one batch
        assert changes == (used if size != 4 else [])
        told[size] = lines
    assert told[staves.Adaptive(4, max=64)]
    assert not told[4]


def test_a_step_in_four_that_is_measured_stands_for_all_four() -> None:
    sparse, dense = Adaptation(staves.Adaptive(32)), Adaptation(staves.Adaptive(128))
    for step in range(300):
        estimate = measured(100.0 + step % 7, 128)
        for _ in range(3):
            sparse.committed(32, None)
        sparse.committed(32, estimate)
        dense.committed(128, estimate)
    dense_seen = dense.running.seen * 4  # of batches of 32
    assert sparse.running.seen == pytest.approx(dense_seen)
    expected = RunningNoiseScale()
    for step in range(300):
        expected.add(measured(100.0 + step % 7, 128).noise_scale, samples=128, reference=32)
    assert sparse.running == expected


@given(st.floats(0.001, 0.5), st.integers(0, 1000))
def test_it_is_known_well_once_the_noise_is_and_enough_was_seen(spread: float, steps: int) -> None:
    adaptation = Adaptation(staves.Adaptive(32))
    for step in range(steps):
        adaptation.committed(32, measured(100 * (1 + spread * (-1) ** step)))
    running = adaptation.running
    if steps < 200:
        assert not adaptation.known_well
    else:  # the deviation is `spread`, whatever the weights
        error = spread / math.sqrt(running.steps - 1)
        assert adaptation.known_well == (running.noise_error <= 0.03)
        assert running.noise_error == pytest.approx(error, rel=0.05)
