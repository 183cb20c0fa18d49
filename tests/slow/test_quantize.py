"""The documented command makes an INT8 model of the digits net, which is then served."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import requests
from PIL import Image

from lightbox.tools.model_zoo import digits
from support import commands
from support.environments import environment
from support.isolation import own_environ
from support.patience import PATIENCE
from support.stack import REPOSITORY, running

pytestmark = pytest.mark.timeout(3600)


def test_the_digits_keep_their_classes(sample_models: Path, tmp_path: Path) -> None:
    model = tmp_path / "models" / "digits"
    shutil.copytree(sample_models / "digits", model)
    data, photos = digits.split(), tmp_path / "photos"
    bodies: list[bytes] = []
    for number, (pixels, label) in enumerate(zip(data.held_out_images, data.held_out_labels, strict=True)):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "png")
        bodies.append(buffer.getvalue())
        (photos / str(label)).mkdir(parents=True, exist_ok=True)
        (photos / str(label) / f"{number}.png").write_bytes(bodies[-1])
    environment(".venv-quantize")
    command = ["make", "--silent", "quantize", f"MODEL={model}", f"IMAGES={photos}"]
    reply = commands.output(command, own_environ(), REPOSITORY, patience=None)
    lines = dict(line.split(": ", 1) for line in reply.splitlines() if ": " in line)
    assert lines["agreement"].endswith("% of 180 images")
    in_f32, in_int8 = (float(part.split()[1].rstrip("%")) for part in lines["accuracy"].split(", "))
    assert in_f32 >= 96
    assert in_int8 >= in_f32 - 2

    environ = {"LIGHTBOX_ENGINE": "auto", "LIGHTBOX_OPTIONS": '{"precision": "int8"}'}
    with running(tmp_path / "models", tmp_path / "run", **environ) as stack:
        answers = [np.array(stack.invoke(body).json()["predictions"][0]) for body in bodies]
        engines = requests.get(f"{stack.url}/v2/models/digits", timeout=PATIENCE).json()["parameters"]["engines"]
    right = np.mean([answer.argmax() == label for answer, label in zip(answers, data.held_out_labels, strict=True)])
    assert right >= in_f32 / 100 - 0.02
    assert "INT8: calibrated with 180 images" in str(engines)
