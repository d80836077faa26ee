"""`staves run --report`: one page that needs nothing else, and says what is emulated."""

from __future__ import annotations

import builtins
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from staves.cli import _run_view
from staves.cli._run_report import write_run_report
from staves.cli._run_view import RunView, fitting, progress_parts
from staves.errors import StavesError
from staves.hardware import read_cluster
from staves.training._history import History, Row, Setting
from tests.training.launch import SCRIPTS, cluster_file, staves_run

PNG = b"\x89PNG\r\n"
PLOTS = {"split", "step-time", "idle-share", "total-batch", "noise-scale", "goodput"}
TWO = {
    name: {
        "forward": {"fixed": "1ms", "per_sample": f"{pace}ms"},
        "backward": {"fixed": "1ms", "per_sample": f"{pace}ms"},
    }
    for name, pace in (("fast", 0.2), ("slow", 0.6))
}


def history() -> dict[str, Any]:
    kept = History()
    both = ("box/<a>", "box/b")
    for step in range(20):
        even = step < 10
        setting = (
            Setting(both, (8, 8), "even")
            if even
            else Setting(both[:1], (16,), "optimal", 0.1, 0.2, (0.0,))
        )
        kept.add(Row(step, 1, setting, 1, 0.2, 30.0 + step, 70.0))
    return kept.to_document()


def figures(**more: Any) -> dict[str, Any]:
    return {
        "steps": 20, "samples": 320, "epochs": 2, "rescales": 1, "local_batches": [16],
        "step_seconds": {"p50": 0.1, "p95": 0.2}, "predicted_step_seconds": 0.11,
        "even_step_seconds": 0.2, "even_step_source": "measured", "emulated": False,
        "metrics": {"accuracy": 0.9}, "loss": {"first": 2.0, "last": 1.0, "covered": {}},
        **more,
    }  # fmt: skip


def test_the_page_holds_everything(tmp_path: Path) -> None:
    page = write_run_report(history(), figures(), tmp_path / "new" / "report", name="a<b>c")
    text = page.read_text()
    assert "a&lt;b&gt;c" in text
    assert "2.00 x as fast" in text
    assert "EMULATED" not in text
    assert "VOID" not in text
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", text), "something is fetched"
    assert "<script" not in text
    pictures = {path.stem: path.read_bytes() for path in page.parent.glob("*.png")}
    assert pictures.keys() == PLOTS
    assert all(data.startswith(PNG) for data in pictures.values())
    assert len(set(pictures.values())) == len(PLOTS)
    assert text.count("data:image/png;base64,") == len(PLOTS)


def test_emulated_and_void_figures_are_labelled(tmp_path: Path) -> None:
    page = write_run_report(history(), figures(emulated=True, void=True), tmp_path, name="x")
    assert "EMULATED" in page.read_text()
    assert "VOID" in page.read_text()


def test_a_run_of_which_little_is_known_has_a_page(tmp_path: Path) -> None:
    empty = History().to_document()
    nothing = {"steps": 0, "samples": 0, "epochs": 0, "rescales": 0, "local_batches": []}
    seconds = {"step_seconds": None, "predicted_step_seconds": None, "even_step_seconds": None}
    page = write_run_report(empty, nothing | seconds | {"emulated": False}, tmp_path, name="x")
    assert page.exists()


def test_the_hint_where_matplotlib_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(StavesError) as error:
        write_run_report(history(), figures(), tmp_path, name="x")
    assert "pip install" in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_refused_before_training(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('it ran')")
    (tmp_path / "file").touch()
    done = staves_run(tmp_path, script, options=("--report", "file"))
    assert done.status == 2
    assert done.stderr.startswith("staves: --report: file is not a folder")
    assert "it ran" not in done.stdout


def test_a_run_over_unlike_devices_leaves_a_page(tmp_path: Path) -> None:
    done = staves_run(
        tmp_path, SCRIPTS / "plain.py", tmp_path / "out",
        devices={"fast": 1, "slow": 1}, emulate=TWO, options=("--report", "page", "--json"),
    )  # fmt: skip
    assert "history" not in done.figures, "it would make the one line long"
    text = (tmp_path / "page" / "index.html").read_text()
    assert "EMULATED" in text
    assert done.figures["run"] in text
    assert f"<td>steps</td><td>{done.figures['steps']}</td>" in text


PROGRESS = {
    "step": 7, "epoch": 0, "samples": 700, "total_samples": 10_700, "loss": 1.25, "batch": 100,
    "step_seconds": {"p50": 0.5, "p95": 0.6}, "local_batches": [60, 40],
    "noise_scale": 1234.4, "goodput": 150.2,
}  # fmt: skip


def test_the_progress_line_says_what_is_known() -> None:
    line = ", ".join(progress_parts(PROGRESS))
    assert line == (
        "step 7, 200 samples/s, loss 1.2500, batch 100, split 60,40, noise scale 1,234,"
        " 0:00:50 left, 500.0 ms a step, goodput 150/s"
    )
    least = progress_parts({**PROGRESS, "noise_scale_interval": [1234.4, None]})
    assert "noise scale >= 1,234" in least
    many = progress_parts({**PROGRESS, "local_batches": [9, 3] * 5})
    assert "split 3 to 9 over 10 devices" in many
    unknown = dict.fromkeys(("total_samples", "loss", "step_seconds", "noise_scale", "goodput"))
    assert progress_parts({**PROGRESS, **unknown, "local_batches": [100]}) == [
        "step 7", "batch 100",
    ]  # fmt: skip


def test_a_narrow_terminal_drops_whole_fields() -> None:
    parts = progress_parts(PROGRESS)
    for room in range(121):
        line = fitting(parts, room)
        assert len(line) <= room
        assert line == "" or set(line.split(", ")) <= set(parts)
    assert fitting(parts, 200) == ", ".join(parts)
    assert fitting(["long field", "short"], 7) == "short"


def test_there_is_no_epoch_beyond_the_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_run_view, "_LINE_EVERY", 0.0)
    devices = read_cluster(cluster_file(tmp_path, {"fast": 1, "slow": 1}, TWO)).devices()
    message = {**PROGRESS, "kind": "progress", "position": 50, "length": 200, "total_samples": 800}
    with RunView(devices, json_wanted=False) as view:
        view.message(0, {**message, "epoch": 7})
        view.message(0, {**message, "epoch": 8, "samples": 800})
    told = capsys.readouterr().err
    assert "epoch 8" in told
    assert "epoch 9" not in told


@pytest.mark.parametrize("void", [False, True])
def test_void_figures_claim_no_gain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], void: bool
) -> None:
    devices = read_cluster(cluster_file(tmp_path, {"fast": 1, "slow": 1}, TWO)).devices()
    late = {"deadlines": {"device_steps": 40, "missed": 9}, "void": void, "emulated": True}
    RunView(devices, json_wanted=False).summary(figures(**late))
    told = capsys.readouterr().err
    assert ("x as fast" in told) is not void
    assert ("VOID: 9 of 40" in told) is void


def test_the_line_refreshes_in_place_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=100)
    monkeypatch.setattr(_run_view, "messages", terminal)
    devices = read_cluster(cluster_file(tmp_path, {"fast": 1, "slow": 1}, TWO)).devices()
    message = {**PROGRESS, "kind": "progress", "position": 50, "length": 200}
    with RunView(devices, json_wanted=False) as view:
        for _ in range(3):
            view.message(0, message)
            assert view._progress is not None
            view._progress.refresh()
        drawn = shown.getvalue().count("samples/s")
        assert shown.getvalue().count("\n") < drawn, "each is drawn over the one before"
    assert "epoch 1" in shown.getvalue()
    assert "noise scale 1,234" in shown.getvalue()
