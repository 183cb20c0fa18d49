"""docs/moving-in.md: the commands below "After" are run, the files of all sections against one stack.

torch is too large for the tests: files in the same formats replace the exported ones.
"""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import botocore.session
import numpy as np
import onnxruntime
import pytest
import requests

from support import commands, photos
from support.fakes import png
from support.models import copy_golden
from support.onnx_models import write_classifier, write_yolo
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, free_port, running, typed

pytestmark = pytest.mark.extended

PAGE = (REPOSITORY / "docs" / "moving-in.md").read_text()
AFTER = {
    title: body.partition("**After**")[2]
    for title, body in re.findall(r"^## From (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
BLOCK = re.compile(r"^```(sh|python)( files)?(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(title, *found) for title, text in AFTER.items() for found in BLOCK.findall(text)]
FILES = [(kind, path, text) for _, kind, files, path, text in BLOCKS if files]
LINES = [(title, kind, text) for title, kind, files, _, text in BLOCKS if not files]
PHOTO = photos.path_of("images", "china.jpg")
TORCHSERVE = {"sky": 0.44634229, "leaf": 0.31181151, "rose": 0.24184622}
"""Probabilities for the pixels that TorchServe 0.12's own ``ImageClassifier.preprocess`` gives of the photo."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the initial folder of the page: each server's files, and an image."""
    found = tmp_path_factory.mktemp("moving_in")
    (found / "models").mkdir()
    copy_golden("half_plus_two", found / "serving" / "half_plus_two")
    copy_golden("image_mean", found / "ovms" / "image_mean")
    copy_golden("half_plus_two", found / "recorded")
    triton = found / "triton" / "plus_three"
    triton.mkdir(parents=True)
    (triton / "config.pbtxt").write_text('name: "plus_three"\nplatform: "tensorflow_savedmodel"\nmax_batch_size: 8\n')
    newest = max((found / "recorded").iterdir(), key=lambda version: int(version.name))
    (triton / "1").mkdir()
    newest.rename(triton / "1" / "model.savedmodel")
    write_classifier(found / "models" / "flowers" / "1" / "model.onnx")
    write_yolo(found / "yolo11n.onnx")
    street = np.full((600, 800, 3), 128, np.uint8)
    street[150:350, 100:300] = 200, 0, 0
    street[200:500, 400:700] = 0, 0, 200
    (found / "street.png").write_bytes(png(street))
    with ZipFile(found / "flowers.mar", "w") as archive:
        archive.writestr("index_to_name.json", json.dumps({"0": "rose", "1": ["n1", "leaf"], "2": "sky"}))
    (found / "red.png").write_bytes(png(np.full((300, 400, 3), (200, 0, 0))))
    return found


@pytest.fixture(scope="module")
def moved_in(folder: Path) -> Iterator[Stack]:
    """Run a stack with the models that the page's commands produce."""
    for kind, path, text in FILES:
        if kind == "python":
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    for kind, _, text in FILES:
        if kind == "sh":
            subprocess.run(["bash", "-e", "-c", text], cwd=folder, check=True)
    environ = {
        "LIGHTBOX_TFS_API": "true",
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two",
    }
    with running(folder / "models", folder / "run", **environ) as stack:
        yield stack


@pytest.fixture(scope="module")
def yolo(folder: Path) -> Iterator[Stack]:
    """Run a stack with the page's command for the file alone."""
    (lines,) = re.findall(r"^```bash\n(.*?)\n```$", AFTER["Ultralytics"], re.MULTILINE | re.DOTALL)
    environ = typed(lines[lines.index("lightbox serve") :], folder)
    file = environ.pop("LIGHTBOX_MODEL_DIR")
    with running(Path(file), folder / "run_alone", **environ) as stack:
        yield stack


@pytest.mark.parametrize(
    ("title", "kind", "text"),
    LINES,
    ids=[f"{number}, {title}, {kind}" for number, (title, kind, _) in enumerate(LINES)],
)
def test_the_lines_print_what_they_say(
    request: pytest.FixtureRequest, folder: Path, title: str, kind: str, text: str
) -> None:
    """Clients run in their own process: they register messages with the same names."""
    stack: Stack = request.getfixturevalue("yolo" if title == "Ultralytics" else "moved_in")
    code, _, printed = re.sub(r"\n# ", "\0", text, count=1).partition("\0")
    expected = printed.replace("\n# ", "\n").strip()
    assert expected, "the block has to say what it prints"
    for port, ours in (("8080", stack.port), ("8081", stack.environ.get("LIGHTBOX_KSERVE_GRPC_PORT"))):
        code = code.replace(f"localhost:{port}", f"127.0.0.1:{ours}")
    command = ["bash", "-e", "-c", code] if kind == "sh" else [sys.executable, "-W", "ignore", "-c", code]
    shown = commands.output(command, cwd=folder)
    assert shown.strip() == expected


def flowers(stack: Stack, model: str, photo: bytes) -> Any:
    header = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={model}"}
    answer = stack.invoke(photo, Content_Type="image/jpeg", **header)
    assert answer.status_code == 200, answer.text
    return answer.json()


def direct(file: Path, tensor: Any) -> Any:
    """Return ONNX Runtime's result for a file with one input."""
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: tensor})[0]


def test_options_answer_as_torchserve_does(moved_in: Stack) -> None:
    (found,) = flowers(moved_in, "flowers", PHOTO.read_bytes())["predictions"]
    assert [one["label"] for one in found] == list(TORCHSERVE)
    assert {one["label"]: one["score"] for one in found} == pytest.approx(TORCHSERVE, abs=1e-5)


def test_the_export_names_what_the_file_of_the_tests_has(folder: Path) -> None:
    (block,) = re.findall(r"^```py\n(import torch\n.*?)^```$", AFTER["TorchServe"], re.MULTILINE | re.DOTALL)
    call = ast.parse(block).body[-1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    said = {keyword.arg: ast.unparse(keyword.value) for keyword in call.value.keywords}
    session = onnxruntime.InferenceSession(folder / ast.literal_eval(call.value.args[2]))
    assert ast.literal_eval(said["input_names"]) == [one.name for one in session.get_inputs()]
    assert ast.literal_eval(said["output_names"]) == [one.name for one in session.get_outputs()]


def test_the_networks_own_output_is_there_in_other_media_types(yolo: Stack, folder: Path) -> None:
    """The image has the input's size, so the resize method has no effect."""
    pixels = np.full((640, 640, 3), 128, np.uint8)
    pixels[100:200, 300:450] = 200, 0, 0
    answer = yolo.invoke(png(pixels), Content_Type="image/png", Accept="application/x-npy")
    assert answer.status_code == 200, answer.text
    tensor = pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255
    expected = direct(folder / "yolo11n.onnx", tensor)
    assert expected.shape == (1, 84, 8400)
    np.testing.assert_allclose(np.load(io.BytesIO(answer.content)), expected, rtol=1e-4, atol=1e-4)


def test_a_file_of_one_row_answers_images_one_by_one(yolo: Stack, folder: Path) -> None:
    photo = (folder / "red.png").read_bytes()
    files = {name: (f"{name}.png", photo, "image/png") for name in ("a", "b")}
    answer = requests.post(f"{yolo.url}/invocations", files=files, timeout=PATIENCE)
    first, second = answer.json()["predictions"]
    assert first == second != []


def test_every_section_but_that_of_arm_has_lines_that_are_run() -> None:
    assert len(AFTER) == 6
    assert {title for title, *_ in LINES} == {title for title in AFTER if "arm64" not in title}
    assert all("**Before**" in body for body in re.split(r"^## From ", PAGE, flags=re.MULTILINE)[1:])


def test_the_lines_for_arm_name_what_is_there() -> None:
    (text,) = [text for title, text in AFTER.items() if "arm64" in title]
    script = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)[0].replace("\\\n", " ")
    build = shlex.split(script.splitlines()[0])
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert set(re.findall(r"--target (\w+)", text)) | {build[build.index("--target") + 1]} <= set(stages)
    known = (
        botocore.session.get_session().get_service_model("sagemaker").shape_for("ProductionVariantInstanceType").enum
    )
    for family in re.findall(r"ml\.[cmr]\dg", PAGE):
        assert f"{family}.xlarge" in known
