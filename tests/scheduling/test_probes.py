from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import Decision, Heet, JobView, Reason, View, violation, with_probes
from staves.testing import Scaling, random_view


def job(name: str, *unmeasured: int, maximum: int = 9) -> JobView:
    return JobView(
        name,
        0.0,
        Scaling((1.0, 2.0, 3.0)),
        600.0,
        maximum=maximum,
        unmeasured=frozenset(unmeasured),
    )


def view(*jobs: JobView, capacity: tuple[int, int, int] = (2, 2, 2)) -> View:
    return View(0.0, ("a", "b", "c"), capacity, (capacity,), jobs)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_probes_take_only_what_is_free_and_allowed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    random = random_view(seed)
    types = len(random.types)
    jobs = tuple(
        replace(j, unmeasured=frozenset(np.flatnonzero(rng.random(types) < 0.5).tolist()))
        for j in random.jobs
    )
    random = replace(random, jobs=jobs)
    # A decision that uses less than there is: that of a smaller cluster.
    fewer = tuple(n - int(rng.integers(0, 3)) if n > 2 else n for n in random.capacity)
    decision = Heet().decide(replace(random, capacity=fewer))
    probed = with_probes(random, decision)
    used = np.sum([[0] * types, *probed.chosen.values()], axis=0)
    assert probed.chosen.keys() == decision.chosen.keys()
    free = np.array(random.capacity) - used
    for j in jobs:
        if j.id not in decision.chosen:
            continue
        before, after = decision.chosen[j.id], probed.chosen[j.id]
        added = [g for g in range(types) if after[g] != before[g]]
        assert tuple(added) == probed.reasons[j.id].probed
        assert all(before[g] == 0 and after[g] == 1 and g in j.unmeasured for g in added)
        for g in j.unmeasured - {g for g in range(types) if after[g]}:
            larger = np.array(after) + np.eye(types, dtype=np.int64)[g]
            missed = (
                j.elastic
                and j.mix
                and free[g] > 0
                and sum(after) < j.maximum
                and (j.types is None or g in j.types)
                and j.rates(larger[None])[0] > 0
            )
            assert not missed, "a probe that was possible"
    if fewer == random.capacity:
        assert violation(random, probed) is None


def test_all_types_are_measured_in_one_phase() -> None:
    decision = Decision({"j": (1, 0, 0)}, {"j": Reason("1 a.")})
    probed = with_probes(view(job("j", 1, 2)), decision)
    assert probed.chosen == {"j": (1, 1, 1)}
    reason = probed.reasons["j"]
    assert reason.probed == (1, 2)
    assert reason.text == "1 a. 1 b + 1 c added to measure it there."
    assert reason.chosen is not None
    assert (reason.chosen.rate, reason.chosen.seconds) == (6.0, 100.0)


def test_what_is_measured_or_held_or_too_much_is_not_probed() -> None:
    decision = Decision({"j": (1, 0, 0)})
    assert with_probes(view(job("j")), decision).chosen == decision.chosen
    assert with_probes(view(job("j", 0)), decision).chosen == decision.chosen
    assert with_probes(view(job("j", 1, 2, maximum=1)), decision).chosen == decision.chosen
    rigid = replace(job("j", 1), elastic=False)
    assert with_probes(view(rigid), decision).chosen == decision.chosen
    one_type = replace(job("j", 1), mix=False)
    assert with_probes(view(one_type), decision).chosen == decision.chosen
    full = view(job("j", 1), job("k"), capacity=(1, 1, 0))
    both = Decision({"j": (1, 0, 0), "k": (0, 1, 0)})
    assert with_probes(full, both).chosen == both.chosen


def test_what_is_not_worth_it_is_not_probed_and_what_tells_most_comes_first() -> None:
    decision = Decision({"j": (1, 0, 0)})
    for probes, chosen in (((), (1, 0, 0)), ((2,), (1, 0, 1)), ((2, 1), (1, 1, 1))):
        wanted = view(replace(job("j", 1, 2), probes=probes), capacity=(2, 3, 2))
        assert with_probes(wanted, decision).chosen == {"j": chosen}
    few = view(replace(job("j", 1, 2, maximum=2), probes=(2, 1)), capacity=(2, 3, 1))
    assert with_probes(few, decision).chosen == {"j": (1, 0, 1)}
    unknown = view(job("j", 1, 2, maximum=2), capacity=(2, 3, 1))
    assert with_probes(unknown, decision).chosen == {"j": (1, 1, 0)}


def test_one_free_device_is_one_probe() -> None:
    jobs = job("j", 1), job("k", 1)
    decision = Decision({"j": (1, 0, 0), "k": (1, 0, 0)})
    probed = with_probes(view(*jobs, capacity=(2, 1, 0)), decision)
    assert probed.chosen == {"j": (1, 1, 0), "k": (1, 0, 0)}


def test_probes_keep_to_quotas() -> None:
    jobs = [replace(job(name, 0, 1), tenant="ann") for name in ("one", "two")]
    asked = replace(view(*jobs), quotas={"ann": 4})
    decision = Decision({"one": (0, 0, 1), "two": (0, 0, 1)})
    probed = with_probes(asked, decision)
    assert sum(map(sum, probed.chosen.values())) == 4
    assert probed.chosen["one"] == (1, 1, 1), "jobs come in order of submission"
    assert violation(asked, probed) is None
    over = with_probes(replace(asked, quotas={"ann": 1}), decision)
    assert over.chosen == decision.chosen
