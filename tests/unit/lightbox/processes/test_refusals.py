"""What is found wrong before a start, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.processes.refusals import find_problems
from lightbox.processes.run_dir import free_port
from lightbox.settings import Settings
from lightbox.settings_loading import load_settings
from support.models import copy_golden


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "image_mean")
    copy_golden("half_plus_two", tmp_path / "half_plus_two")
    return tmp_path


def settings(root: Path, **environ: str) -> Settings:
    base = {"LIGHTBOX_MODEL_DIR": str(root), "SAGEMAKER_BIND_TO_PORT": str(free_port())}
    return load_settings(base | {"LIGHTBOX_MODEL_SERVER": "embedded"} | environ)


@pytest.mark.parametrize("place", ["code", "image_mean/code"])
def test_code_where_it_belongs_is_no_problem(root: Path, place: str) -> None:
    (root / place).mkdir()
    (root / place / "inference.py").write_text("def handler(data, context): ...")
    assert find_problems(settings(root)) == []


def test_one_line_for_what_two_models_share(root: Path) -> None:
    (root / "code").mkdir()
    (root / "code" / "lightbox.json").write_text("{")
    (problem,) = find_problems(settings(root))
    assert str(root / "code" / "lightbox.json") in problem


def test_what_hangs_on_a_refused_variable_is_not_judged(root: Path) -> None:
    nowhere = settings(root / "nowhere")
    assert len(find_problems(nowhere)) == 1
    assert find_problems(nowhere, {"LIGHTBOX_MODEL_DIR"}) == []


def test_code_that_universal_code_may_complete_is_not_judged_yet(root: Path) -> None:
    (root / "image_mean" / "code").mkdir()
    (root / "image_mean" / "code" / "lightbox.json").write_text('{"labels": "labels.txt"}')
    assert len(find_problems(settings(root))) == 1
    universal = {
        "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": "b",
        "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": "p",
    }
    assert find_problems(settings(root, **universal)) == []
