"""docs/from-pytorch.md: its export scripts run with substitutes for torch, timm and Ultralytics, the rest is real."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import onnxruntime
import pytest
import requests
from PIL import Image

from support import commands, photos
from support.onnx_models import write_classifier, write_yolo
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, running, typed

pytestmark = pytest.mark.extended

PAGE = (REPOSITORY / "docs" / "from-pytorch.md").read_text()
CLASSIFIER, DETECTOR = (
    re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for text in re.findall(r"^## (?:Name a photo|Find things):(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
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
RED, BLUE = (100, 150, 300, 350), (400, 200, 700, 500)


def block(blocks: list[tuple[str, str]], language: str, containing: str = "") -> str:
    """Return the only block in a language that contains a text."""
    (found,) = [text for kind, text in blocks if kind == language and containing in text]
    return found


def run_export(blocks: list[tuple[str, str]], folder: Path, **modules: Any) -> None:
    """Run an export script in a folder, with modules that replace libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        exec(compile(block(blocks, "python"), PAGE, "exec"), {})


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
    run_export(CLASSIFIER, folder, torch=torch, timm=timm)


def export_detector(folder: Path) -> None:
    def network(weights: str) -> Any:
        def export(**said: str) -> str:
            file = f"{Path(weights).stem}.{said['format']}"
            write_yolo(folder / file)
            return file

        return MagicMock(export=export)

    run_export(DETECTOR, folder, ultralytics=MagicMock(YOLO=network))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the export scripts' output."""
    folder = tmp_path_factory.mktemp("from_pytorch")
    export_classifier(folder)
    export_detector(folder)
    return folder


@pytest.fixture(scope="module")
def stack(folder: Path) -> Iterator[Stack]:
    """Run both models, started with the second tutorial's commands."""
    environ = typed(block(DETECTOR, "bash", "lightbox serve"), folder)
    with running(Path(environ.pop("LIGHTBOX_MODEL_DIR")), folder / "run", **environ) as stack:
        yield stack


def answered(blocks: list[tuple[str, str]], folder: Path, stack: Stack) -> list[dict[str, Any]]:
    """Return the answer to the page's request for the folder's photo."""
    line = block(blocks, "bash", "curl").replace("localhost:8080", f"127.0.0.1:{stack.port}")
    printed = commands.output(["bash", "-ec", line], cwd=folder)
    (row,) = json.loads(printed)["predictions"]
    return list(row)


def shown(blocks: list[tuple[str, str]]) -> list[dict[str, Any]]:
    (row,) = json.loads(block(blocks, "json"))["predictions"]
    return list(row)


def test_a_photo_is_named_as_shown_and_as_with_timms_pixels(folder: Path, stack: Stack) -> None:
    shutil.copy(photos.path_of("images", "china.jpg"), folder / "photo.jpg")
    row = answered(CLASSIFIER, folder, stack)
    assert [(one["class"], one["label"]) for one in row] == [(number, CLASSES[number]) for number in TIMM]
    assert [one["score"] for one in row] == pytest.approx(list(TIMM.values()), abs=1e-5)
    assert [one | {"score": round(one["score"], 2)} for one in row] == shown(CLASSIFIER)


def test_things_are_found_as_shown_and_where_they_are(folder: Path, stack: Stack) -> None:
    street = np.full((600, 800, 3), 128, np.uint8)
    for (left, top, right, bottom), color in ((RED, (220, 0, 0)), (BLUE, (0, 0, 220))):
        street[top:bottom, left:right] = color
    Image.fromarray(street).save(folder / "photo.jpg", quality=95, subsampling=0)
    row = answered(DETECTOR, folder, stack)
    for one, expected, place in zip(row, shown(DETECTOR), (RED, BLUE), strict=True):
        assert one == {
            "label": expected["label"],
            "class": expected["class"],
            "score": pytest.approx(expected["score"], abs=0.01),
            "box": pytest.approx(expected["box"], abs=2),  # JPEG blurs edges
        }
        assert tuple(expected["box"]) == place


def test_the_page_is_there_to_see_them(stack: Stack) -> None:
    assert requests.get(f"{stack.url}/", timeout=PATIENCE).status_code == 200


def test_the_first_start_is_the_second_without_the_page() -> None:
    first, second = (block(blocks, "bash", "lightbox serve") for blocks in (CLASSIFIER, DETECTOR))
    assert first == second.replace(" --page", "")
