from __future__ import annotations

import pickle

from staves.scheduling import Reason
from staves.scheduling._reasons import Reasons


def test_they_are_made_once_and_only_if_somebody_looks() -> None:
    made = []

    def make() -> dict[str, Reason]:
        made.append(True)
        return {"a": Reason("because"), "b": Reason("therefore")}

    reasons = Reasons(make)
    assert not made
    assert reasons["a"].text == "because"
    assert list(reasons) == ["a", "b"]
    assert len(reasons) == 2
    assert reasons == {"a": Reason("because"), "b": Reason("therefore")}
    assert {**reasons, "a": Reason("else")}["b"].text == "therefore"
    assert len(made) == 1


def test_they_are_pickled_as_what_they_say() -> None:
    reasons = Reasons(lambda: {"a": Reason("because")})
    assert pickle.loads(pickle.dumps(reasons)) == {"a": Reason("because")}
