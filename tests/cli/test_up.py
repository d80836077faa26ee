"""`staves up`: what it starts when it is told little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import staves.service
from staves.cli import main
from staves.service import ServiceFolder, Settings

RAY = ("ray", {"address": "10.0.0.1:6379"})


@pytest.mark.parametrize(
    ("last", "options", "expected"),
    [
        (None, [], ("local", {})),
        (("local", {}), [], ("local", {})),
        (RAY, [], RAY),
        (RAY, ["--address", "auto"], ("ray", {"address": "auto"})),
        (RAY, ["--engine", "local"], ("local", {})),
        (RAY, ["--engine", "slurm", "--partition", "gpu"], ("slurm", {"partition": "gpu"})),
        (None, ["--engine", "ray"], ("ray", {})),
    ],
)
def test_the_engine_is_that_of_the_last_start_unless_another_is_named(
    last: tuple[str, dict[str, str]] | None,
    options: list[str],
    expected: tuple[str, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STAVES_HOME", str(tmp_path))
    folder = ServiceFolder(tmp_path)
    folder.path.mkdir(parents=True, exist_ok=True)
    if last is not None:
        folder.keep_engine(*last)
    started: list[Settings] = []

    def start(settings: Settings) -> dict[str, Any]:
        started.append(settings)
        return {"url": "http://127.0.0.1:1", "pid": 1}

    monkeypatch.setattr(staves.service, "up", start)
    with pytest.raises(SystemExit) as ended:
        main(["up", *options])
    assert not ended.value.code
    (settings,) = started
    assert (settings.engine, dict(settings.options)) == expected
    told = "the engine is that of the last start, ray" in capsys.readouterr().err
    assert told == (last == RAY and "--engine" not in options)
