"""TensorBoard: a clear refusal where it is absent, and what is written where it is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

import staves
from staves.errors import InputError, StavesError
from staves.training._adaptation import Adaptation
from staves.training._board import Board, scalars
from staves.training._figures import Figures
from staves.training._planner import Plan
from staves.training._timing import StepRecord
from tests.training.launch import command

MODULE = "torch.utils.tensorboard.writer"


class Writer:
    """Stands in for torch's SummaryWriter."""

    made: ClassVar[list[str]] = []

    def __init__(self, folder: str) -> None:
        if "forbidden" in folder:
            raise PermissionError(13, "Permission denied")
        self.made.append(folder)
        self.rows: list[tuple[str, Any, int]] = []

    def add_scalar(self, name: str, value: Any, step: int) -> None:
        self.rows.append((name, value, step))

    def close(self) -> None:
        pass


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(MODULE)
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.setattr(Writer, "made", [])


def test_without_tensorboard_there_is_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="pip install tensorboard"):
        Board(tmp_path)


@pytest.mark.usefixtures("writer")
def test_it_opens_no_file_before_something_is_written(tmp_path: Path) -> None:
    board = Board(tmp_path)
    assert Writer.made == []
    board.write({"a": 1.0, "b": None}, step=3)
    board.write({"a": 2.0}, step=4)
    assert Writer.made == [str(tmp_path)]
    written: Any = board._writer
    assert written.rows == [("a", 1.0, 3), ("a", 2.0, 4)]


@pytest.mark.usefixtures("writer")
def test_a_folder_that_cannot_be_written_is_said_on_one_line() -> None:
    with pytest.raises(StavesError, match="forbidden: Permission denied"):
        Board(Path("forbidden")).write({"a": 1.0}, step=0)


@pytest.mark.usefixtures("writer")
def test_the_environment_goes_before_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STAVES_TENSORBOARD", raising=False)
    assert Board.wanted(None) is None
    monkeypatch.setenv("STAVES_TENSORBOARD", str(tmp_path / "env"))
    board = Board.wanted("script")
    assert board is not None
    board.write({"a": 1.0}, step=0)
    assert Writer.made == [str(tmp_path / "env")]


def test_scalars_name_the_devices() -> None:
    figures = Figures(None)
    figures.adaptation = Adaptation(staves.Adaptive(12))
    figures.begin_generation(["a", "b"])
    plan = Plan(
        0,
        "optimal",
        (8, 4),
        predicted_seconds=0.5,
        even_seconds=0.7,
        goodput=50.0,  # as it was predicted
        idle_share=(0.0, 0.2),
    )
    figures.measured(StepRecord(0, 0, 8, 0.0, 0.0, (), (), 0.6), plan, settled=True)
    values = scalars(figures, plan, 1.5)
    assert values["training/loss"] == 1.5
    assert values["speed/goodput"] == pytest.approx(20)
    assert values["speed/samples_per_second"] == pytest.approx(20)
    assert (values["local_batch/a"], values["idle_share/b"]) == (8, 0.2)


SCRIPT = """
import json, sys
from types import ModuleType
sys.path.insert(0, {root!r})
from tests.training.test_board import MODULE, Writer
module = ModuleType(MODULE)
module.SummaryWriter = Writer
sys.modules["torch.utils.tensorboard"] = ModuleType("tensorboard")
sys.modules[MODULE] = module

import torch, staves
run = staves.init(batch_size=8, tensorboard="board")
model = torch.nn.Linear(2, 1)
model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
batches = run.loader(torch.utils.data.TensorDataset(torch.randn(64, 2)))
for epoch in run.epochs(2):
    for (inputs,) in batches:
        run.backward(model(inputs).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    run.log(quality=epoch)
report = run.report()
print(json.dumps({{
    "rows": run._session.figures.board._writer.rows, "history": report["history"],
    "steps": report["steps"],
}}))
"""


def test_a_script_writes_losses_and_metrics_and_has_a_history(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(Path(__file__).parents[2])))
    done = command([script], tmp_path / "home", cwd=tmp_path)
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    names = {name for name, *_ in told["rows"]}
    assert {"training/epoch_loss", "training/batch", "metrics/quality"} <= names
    assert [(v, s) for n, v, s in told["rows"] if n == "metrics/quality"] == [(0, 8), (1, 16)]
    covered = sum(row["steps"] for row in told["history"]["rows"])
    assert told["steps"] == 16
    # The first step of each pass over the data has no beginning that could be timed.
    assert 14 <= covered <= 16
