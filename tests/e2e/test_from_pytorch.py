"""docs/from-pytorch.md: its export script runs with substitutes for torch and timm, the rest is real."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import onnxruntime
import pytest

from support import commands, photos
from support.onnx_models import write_classifier
from support.stack import REPOSITORY, Stack, running, typed

pytestmark = pytest.mark.extended

PAGE = (REPOSITORY / "docs" / "from-pytorch.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(\w+)\n(.*?)^```$", PAGE.partition("## Name a photo")[2], re.MULTILINE | re.DOTALL
)
CLASSES = {698: "palace", 975: "lakeside, lakeshore", 449: "boathouse"}
"""ImageNet's, with timm's descriptions."""
CONFIG = {
    "input_size": (3, 224, 224),
    "interpolation": "bicubic",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "crop_pct": 0.95,
    "crop_mode": "center",
}
"""The result of timm 1.0.31's ``resolve_model_data_config`` for its resnet18."""
TIMM = {449: 0.46372414, 975: 0.30567801, 698: 0.23059748}
"""The test network's probabilities for the pixels that timm 1.0.31's ``create_transform`` gives of the photo."""


def block(language: str, containing: str = "") -> str:
    """Return the only block in a language that contains a text."""
    (found,) = [text for kind, text in BLOCKS if kind == language and containing in text]
    return found


def run_export(folder: Path, **modules: Any) -> None:
    """Run the export script in a folder, with modules that replace libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        exec(compile(block("python"), PAGE, "exec"), {})


def export_classifier(folder: Path) -> None:
    torch, timm = MagicMock(), MagicMock()

    def export(network: Any, inputs: Any, file: str, **said: Any) -> None:
        write_classifier(Path(file), tuple(CLASSES), 1000)
        session = onnxruntime.InferenceSession(file)
        assert said["input_names"] == [one.name for one in session.get_inputs()]
        assert said["output_names"] == [one.name for one in session.get_outputs()]

    torch.onnx.export = export
    timm.create_model.return_value.num_classes = 1000
    timm.data.resolve_model_data_config.return_value = CONFIG
    timm.data.ImageNetInfo.return_value.index_to_description = lambda number: CLASSES.get(number, f"class {number}")
    run_export(folder, torch=torch, timm=timm)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the export script's output."""
    folder = tmp_path_factory.mktemp("from_pytorch")
    export_classifier(folder)
    return folder


@pytest.fixture(scope="module")
def stack(folder: Path) -> Iterator[Stack]:
    """Run the model, started with the tutorial's command."""
    environ = typed(block("bash", "lightbox serve"), folder)
    with running(Path(environ.pop("LIGHTBOX_MODEL_DIR")), folder / "run", **environ) as stack:
        yield stack


def test_a_photo_is_named_as_shown_and_as_with_timms_pixels(folder: Path, stack: Stack) -> None:
    shutil.copy(photos.path_of("images", "china.jpg"), folder / "photo.jpg")
    line = block("bash", "curl").replace("localhost:8080", f"127.0.0.1:{stack.port}")
    (row,) = json.loads(commands.output(["bash", "-ec", line], cwd=folder))["predictions"]
    assert [(one["class"], one["label"]) for one in row] == [(number, CLASSES[number]) for number in TIMM]
    assert [one["score"] for one in row] == pytest.approx(list(TIMM.values()), abs=1e-5)
    (shown,) = json.loads(block("json"))["predictions"]
    assert [one | {"score": round(one["score"], 2)} for one in row] == shown
