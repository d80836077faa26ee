"""Which engine `staves up` builds, of what, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from staves.errors import InputError
from staves.service import Settings
from staves.service._engines import build_engine
from staves.service._folder import ServiceFolder

CLUSTER = "nodes: [{name: box, devices: {local-cpu: 1}}]"


def test_settings_survive_the_command_line(tmp_path: Path) -> None:
    options = {"address": "10.0.0.1:6379", "extra": "--a=b c", "empty": ""}
    settings = Settings(tmp_path, cluster=tmp_path / "c.yaml", engine="ray", options=options)
    assert Settings.parse(settings.arguments()) == settings
    assert Settings.parse(Settings(tmp_path).arguments()) == Settings(tmp_path)


@pytest.mark.parametrize(
    ("engine", "options", "words"),
    [
        ("rey", {}, "--engine: 'rey' is none"),
        ("local", {"address": "auto"}, "the engine local has no option 'address'"),
        ("ray", {"adress": "auto"}, "the engine ray has no option 'adress'"),
        ("slurm", {"partition": "gpu", "sbatch": "qos=high requeue"}, "requeue is set by Staves"),
        ("slurm", {"notice": "soon"}, "soon"),
    ],
)
def test_what_is_refused(tmp_path: Path, engine: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_engine(engine, tmp_path, None, options)


def test_a_file_is_kept_once_its_engine_stands(tmp_path: Path) -> None:
    file, kept = tmp_path / "cluster.yaml", ServiceFolder(tmp_path / "home").cluster_file
    file.write_text(CLUSTER)
    with pytest.raises(InputError):
        build_engine("local", tmp_path / "home", file, {"address": "auto"})
    assert not kept.exists()
    built = build_engine("local", tmp_path / "home", file, {})
    file.unlink()
    assert build_engine("local", tmp_path / "home", None, {}).cluster() == built.cluster()


def test_commands_find_the_engine_that_was_started_last(tmp_path: Path) -> None:
    file, folder = tmp_path / "cluster.yaml", ServiceFolder(tmp_path / "home")
    file.write_text(CLUSTER)
    assert folder.engine() is None
    build_engine("local", folder.home, file, {}, keep=False)
    assert not folder.home.exists()
    build_engine("local", folder.home, file, {})
    assert folder.engine() == ("local", {})
    folder.keep_engine("slurm", {"partition": "gpu"})
    assert folder.engine() == ("slurm", {"partition": "gpu"})
    (folder.path / "engine.json").write_text("[]")
    with pytest.raises(InputError, match=r"engine\.json: .* cannot be read"):
        folder.engine()
