"""What exchanges take: what was measured, and elsewhere what alike jobs took."""

from __future__ import annotations

import math

import numpy as np
import pytest

from staves.errors import InputError
from staves.estimation import Cell, Exchanges, SyncFilter
from staves.steptime import ring_share

TYPES, SIZES, LARGEST = ("fast", "slow"), (8, 4), 16
LINKS = {"fast": 1e-3, "slow": 4e-3}  # seconds a megabyte on one node
APART = {"fast": 2.0, "slow": 20.0}  # times as long between nodes
SPEED = {"fast": 1000.0, "slow": 400.0}


def took(size: float, cell: Cell) -> float:
    """Return the seconds of `size` megabytes: a ring, whose slowest link is its type's."""
    factor = APART[cell.device_type] if cell.nodes > 1 else 1.0
    return size * LINKS[cell.device_type] * factor * float(ring_share(cell.devices))


def job(rng: np.random.Generator, size: float, cells: list[Cell], noise: float = 0.0) -> Exchanges:
    """Return a job that computes the longer the more it sends, as measured."""
    pace = 5.0 / size
    return Exchanges(
        16.0,
        {name: speed * pace for name, speed in SPEED.items()},
        {cell: took(size, cell) * math.exp(noise * rng.normal()) for cell in cells},
    )


def all_cells() -> list[Cell]:
    return [
        Cell(name, devices, nodes)
        for name, most in zip(TYPES, SIZES, strict=True)
        for devices in (2, 3, 4, 8, 16)
        for nodes in sorted({-(-devices // most), max(2, -(-devices // most))})
    ]


@pytest.fixture(scope="module")
def taught() -> SyncFilter:
    rng = np.random.default_rng(0)
    cells = all_cells()
    past = []
    for _ in range(24):
        some = [cells[i] for i in rng.choice(len(cells), 4, replace=False)]
        past.append(job(rng, float(np.exp(rng.normal(2.0, 0.8))), some, noise=0.05))
    return SyncFilter(past, TYPES, SIZES, LARGEST)


def error(found: SyncFilter, known: Exchanges, size: float) -> float:
    """Return the mean of |ln| of what is off, over all cells."""
    seconds = found.seconds(known)
    logs = [
        math.log(
            seconds[int(cell.nodes > 1), TYPES.index(cell.device_type), cell.devices]
            / took(size, cell)
        )
        for cell in all_cells()
    ]
    return float(np.mean(np.abs(logs)))


def test_a_job_is_known_by_how_it_computes_and_better_by_what_it_took(taught: SyncFilter) -> None:
    """Without past jobs it cannot be known that links between slow nodes are that much slower."""
    nobody = SyncFilter((), TYPES, SIZES, LARGEST)
    rng = np.random.default_rng(1)
    untried, tried, alone = [], [], []
    for size in (2.0, 7.0, 30.0):
        untried.append(error(taught, job(rng, size, []), size))
        tried.append(error(taught, job(rng, size, [Cell("slow", 8, 2)]), size))
        alone.append(error(nobody, job(rng, size, [Cell("slow", 8, 2)]), size))
    assert max(untried) < 0.35
    assert max(tried) < 0.25
    assert min(alone) > 3 * max(tried)


def test_what_was_measured_pulls_its_links_along(taught: SyncFilter) -> None:
    cell = Cell("fast", 4, 1)
    plain = job(np.random.default_rng(2), 8.0, [])
    before = taught.seconds(plain)
    slower = float(before[0, 0, 4]) * 1.5
    after = taught.seconds(Exchanges(plain.batch, plain.alone, {cell: slower}))
    assert before[0, 0, 4] * 1.1 < after[0, 0, 4] < slower * 1.01
    assert (after[0, 0, 2:9] > before[0, 0, 2:9]).all()


def test_the_table_has_nothing_alone_and_one_value_beyond_a_node(taught: SyncFilter) -> None:
    seconds = taught.seconds(job(np.random.default_rng(2), 5.0, []))
    assert seconds.shape == (2, 2, LARGEST + 1)
    assert not seconds[:, :, :2].any()
    assert (seconds[:, :, 2:] > 0).all()
    for g, size in enumerate(SIZES):
        beyond = 2 * size  # the next number of devices that is a cell
        assert seconds[0, g, beyond:] == pytest.approx(seconds[1, g, beyond:])


def test_it_is_the_conditional_mean_of_its_normal_distribution(taught: SyncFilter) -> None:
    """Against the plain formula, from the joint distribution of what is seen and what is asked."""
    known = job(np.random.default_rng(3), 9.0, [Cell("slow", 2, 1), Cell("fast", 8, 1)])
    space, joint = taught._space, taught._believed
    seen = {Cell(name, 1): math.log(rate) for name, rate in known.alone.items()}
    for cell, seconds in known.sync.items():
        seen[cell] = math.log(cell.devices * 16.0 * float(ring_share(cell.devices)) / seconds)
    at = space.index(seen)
    noise = np.diag([1e-4 if cell.devices == 1 else 0.01 for cell in seen])
    asked = int(space.index([Cell("slow", 8, 2)])[0])
    weights = np.linalg.inv(joint.covariance[np.ix_(at, at)] + noise)
    left = np.array(list(seen.values())) - joint.mean[at]
    log = joint.mean[asked] + joint.covariance[asked, at] @ weights @ left
    expected = 8 * 16.0 * float(ring_share(8)) / math.exp(log)
    assert taught.seconds(known)[1, 1, 8] == pytest.approx(expected)


def test_shapes_must_fit() -> None:
    with pytest.raises(InputError, match="1 sizes of nodes for 2 types"):
        SyncFilter((), TYPES, (8,), 4)


def test_it_is_off_as_often_as_it_says(taught: SyncFilter) -> None:
    """Jobs are drawn from what it believes, and told of in part: how far off is it then?"""
    rng = np.random.default_rng(3)
    space, believed = taught._space, taught._believed
    seen = Cell("slow", 4)
    wanted = [(0, 0, 4), (1, 0, 8), (0, 1, 2), (1, 1, 16), (0, 1, 4)]
    rungs = {2: 0, 4: 1, 8: 2, 16: 3}
    off = []
    for _ in range(400):
        true = rng.multivariate_normal(believed.mean, believed.covariance, method="eigh")

        def exchange(cell: int, devices: int, x: np.ndarray = true) -> float:
            sent = devices * 16.0 * float(ring_share(devices))
            return sent / math.exp(x[cell])

        cells = {name: int(space.index([Cell(name, 1)])[0]) for name in TYPES}
        alone = {name: math.exp(true[at] + rng.normal() * 0.01) for name, at in cells.items()}
        noisy = exchange(int(space.index([seen])[0]), 4) * math.exp(rng.normal() * 0.1)
        known = Exchanges(16.0, alone, {seen: noisy})
        found = taught.seconds(known)
        off.append(
            [
                math.log(found[at] / exchange(int(taught._at[at[0], at[1], rungs[at[2]]]), at[2]))
                for at in wanted
            ]
        )
    deviation = taught.log_std(known)
    told = np.sqrt([deviation[at] ** 2 - 0.01 for at in wanted])  # less that of another batch
    assert np.std(off, axis=0) == pytest.approx(told, rel=0.15)
    assert (deviation[:, :, :2] == 0).all()


def test_it_is_surer_of_what_was_measured(taught: SyncFilter) -> None:
    known = Exchanges(16.0, SPEED)
    one = Exchanges(16.0, SPEED, {Cell("slow", 4): 0.01})
    before, after = taught.log_std(known), taught.log_std(one)
    assert (after <= before + 1e-9).all()
    assert after[0, 1, 4] < before[0, 1, 4]
