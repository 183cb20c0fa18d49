"""``lightbox optimize`` on real pictures: what it writes is served, and what quantizes badly is refused."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import requests
from onnx import helper
from PIL import Image

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.setting import IN_MODEL
from lightbox.tools.model_zoo import digits
from support.environments import environment
from support.isolation import own_environ
from support.onnx_models import write
from support.patience import PATIENCE
from support.stack import REPOSITORY, running

pytestmark = pytest.mark.timeout(3600)

BAD, SIDE, CHANNELS, CLASSES, COUNT = 10, 32, 16, 10, 80


def command(cache: Path, *arguments: object) -> subprocess.Popen[str]:
    python = environment(".venv-quantize") / "bin" / "python"
    environ = own_environ() | {"PYTHONPATH": str(REPOSITORY / "container"), "XDG_CACHE_HOME": str(cache)}
    words = [str(python), "-m", "lightbox", "optimize", *map(str, arguments)]
    return subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def optimized(cache: Path, version: Path, *arguments: object) -> dict[str, Any]:
    """Run the command to its end, and return what it has written, with the items of its report by setting."""
    with command(cache, version.parent, *arguments) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, out + errors
    content = disk_cache.read(version / IN_MODEL)
    assert content is not None
    result: dict[str, Any] = content["optimized"]
    tried = {f"{item['engine']} {item['precision']}": item for item in result["report"]["tried"]}
    return result | {"tried": tried}


def photos(count: int) -> list[Image.Image]:
    coarse = np.random.default_rng(3).integers(0, 256, (count, 4, 4, 3), np.uint8)
    return [Image.fromarray(one).resize((SIDE, SIDE), Image.Resampling.BICUBIC) for one in coarse]


def write_photos(folder: Path, count: int) -> None:
    folder.mkdir()
    for number, photo in enumerate(photos(count)):
        photo.save(folder / f"{number}.png")


def write_bad(version: Path, seed: int) -> None:
    """Write a classifier with a channel of large values, which leave INT8 no steps for those that tell the classes."""
    random = np.random.default_rng(seed)
    first = random.normal(0, 1, (CHANNELS, 3, 3, 3)).astype(np.float32)
    first[0] = 3e3 * np.abs(first[0])
    second = random.normal(0, 1, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
    second[:, 0] = 0
    last = random.normal(0, 1, (CHANNELS, CLASSES)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "first"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["c"], pads=[1] * 4),
        helper.make_node("ReduceMean", ["c"], ["d"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["d", "last"], ["logits"]),
    ]
    constants = {"first": first, "second": second, "last": last}
    image = {"image": ("FLOAT", [1, 3, SIDE, SIDE])}
    write(version / "model.onnx", nodes, image, {"logits": ("FLOAT", [1, CLASSES])}, constants)
    session = onnxruntime.InferenceSession(version / "model.onnx")
    pixels = [np.asarray(photo, np.float32).transpose(2, 0, 1)[None] for photo in photos(COUNT)]
    found = np.concatenate([session.run(None, {"image": one})[0] for one in pixels])
    nodes[-1] = helper.make_node("MatMul", ["d", "last"], ["e"])
    nodes += [helper.make_node("Sub", ["e", "mean"], ["f"]), helper.make_node("Div", ["f", "deviation"], ["logits"])]
    constants |= {"mean": found.mean(0), "deviation": found.std(0)}  # so that each class is the best of some pictures
    write(version / "model.onnx", nodes, image, {"logits": ("FLOAT", [1, CLASSES])}, constants)


def test_a_network_that_quantizes_badly_is_refused_ten_times_of_ten(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", COUNT)
    for seed in range(BAD):
        version = tmp_path / f"bad{seed}" / "1"
        write_bad(version, seed)
        found = optimized(tmp_path / "cache", version, tmp_path / "photos", "--budget", "5%")
        assert found["tried"]["openvino int8"]["verdict"].startswith("refused: top-1 ")
        assert found["tried"]["openvino int8"]["agreement"]["top-1"] < 0.9
        assert found["setting"]["precision"] != "int8"
        assert not list(version.glob("assets.extra/lightbox_int8/*"))


def test_the_digits_keep_their_classes(sample_models: Path, tmp_path: Path) -> None:
    version, photos = tmp_path / "models" / "digits" / "1", tmp_path / "photos"
    shutil.copytree(sample_models / "digits", version.parent)
    data, bodies = digits.split(), list[bytes]()
    for number, (pixels, label) in enumerate(zip(data.held_out_images, data.held_out_labels, strict=True)):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "png")
        bodies.append(buffer.getvalue())
        (photos / str(label)).mkdir(parents=True, exist_ok=True)
        (photos / str(label) / f"{number}.png").write_bytes(bodies[-1])

    with command(tmp_path / "cache", version.parent, photos, "--budget", "0.1%") as process:
        assert "takes at least 3,000 different pictures, got " in process.communicate()[1]
    assert process.returncode == 1

    arguments = (version.parent, photos, "--budget", "2%")
    with command(tmp_path / "cache", *arguments) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "tried " in line:
                process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    measured = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("optimize-*.json")}
    assert measured
    found = optimized(tmp_path / "cache", version, photos, "--budget", "2%")
    assert {path: path.stat().st_mtime_ns for path in measured} == measured, "it has begun again"
    item = found["tried"]["auto int8"]
    assert item["truth"]["present"]["accuracy"] >= 0.96
    assert item["agreement"]["top-1"] >= 0.95

    with running(tmp_path / "models", tmp_path / "run", LIGHTBOX_ENGINE="auto") as stack:
        answers = [np.array(stack.invoke(body).json()["predictions"][0]) for body in bodies]
        shown = requests.get(f"{stack.url}/v2/models/digits", timeout=PATIENCE).json()["parameters"]["engines"]
    right = np.mean([answer.argmax() == label for answer, label in zip(answers, data.held_out_labels, strict=True)])
    assert right >= item["truth"]["present"]["accuracy"] - 0.02
    if found["setting"]["precision"] == "int8":
        assert "INT8: calibrated with " in str(shown)
