"""The model config that a model server reads at its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.features.multi_model.state import LoadedModel, LoadedModels
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.processes.commands import write_model_config
from support.models import GOLDEN


def model(name: str, base_path: Path) -> PlannedModel:
    return PlannedModel(name=name, base_path=base_path, options=ModelOptions())


def config(run_dir: Path) -> str:
    return (run_dir / "models.config").read_text()


def test_a_model_is_named_with_its_base_path(tmp_path: Path) -> None:
    write_model_config([model("a", tmp_path / "nowhere")], tmp_path)
    assert f'base_path: "{tmp_path}/nowhere"' in config(tmp_path)


def test_a_removed_model_is_left_out_and_leaves_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = LoadedModels(tmp_path)
    write_model_config(state.loadable(), tmp_path)
    assert config(tmp_path) == "model_config_list {\n}\n"
    links = {}
    for name, target in (("kept", GOLDEN / "half_plus_two" / "1"), ("gone", tmp_path / "nowhere")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").symlink_to(target)
        links[name] = LoadedModel(model=model(name, tmp_path / name), url=name, generation="1")
        state.update(name, loaded=links[name])
    write_model_config(state.loadable(), tmp_path)
    assert list(state.all()) == ["kept"]
    assert ('name: "kept"' in config(tmp_path), "gone" in config(tmp_path)) == (True, False)
    assert state.leaving() == {"gone": links["gone"]}
    assert "the model 'gone' is not loaded any more: its folder was removed" in capsys.readouterr().err
