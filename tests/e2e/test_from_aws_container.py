"""docs/from-aws-container.md: its handlers answer the same before and after; its tables list every variable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.serving.settings_loading import known_variables
from support.fakes import png
from support.models import copy_golden, export
from support.stack import REPOSITORY, Stack, running

pytestmark = pytest.mark.extended

PAGE = (REPOSITORY / "docs" / "from-aws-container.md").read_text()
CASES = re.findall(r"^### (\d)\. (.*?)(?=^### |\Z)", PAGE, re.DOTALL | re.MULTILINE)
STAGES = ("before", "after")
PICTURE = png(np.random.default_rng(7).integers(0, 256, (60, 90, 3)))


@pytest.fixture(scope="module")
def aws_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run two models for each case: one with the code before migration, one with the code after."""
    folder = tmp_path_factory.mktemp("page")
    root = folder / "models"
    for number, text in CASES:
        for stage, part in zip(STAGES, text.split("**After**"), strict=True):
            model = root / f"{stage}-{number}"
            MODELS[number](model)
            write_code(model / "code", part)
    with running(root, folder / "run", SAGEMAKER_GUNICORN_WORKERS="1") as running_stack:
        yield running_stack


def write_code(folder: Path, part: str) -> None:
    files = {"inference.py": fenced("python", part), "lightbox.json": fenced("json", part)}
    for name, content in files.items():
        if content is not None:
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(content)


def fenced(language: str, text: str) -> str | None:
    blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert len(blocks) <= 1
    return blocks[0] if blocks else None


MAKER = "tests/e2e/test_from_aws_container.py"


def export_photo(folder: Path) -> None:
    """Export a model from float32 [N, 224, 224, 3] to the mean of each colour."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 224, 224, 3], tf.float32, name="image")])  # type: ignore[untyped-decorator]
        def serve(image: Any) -> dict[str, Any]:
            return {"scores": tf.reduce_mean(image, axis=[1, 2])}

        return serve

    export("photo", make, folder / "1", MAKER)


def export_rows(folder: Path) -> None:
    """Export a model from float32 [N, 3] to a weighted sum."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="row")])  # type: ignore[untyped-decorator]
        def serve(row: Any) -> dict[str, Any]:
            return {"score": tf.reduce_sum(row * [1.0, 10.0, 100.0], axis=1)}

        return serve

    export("rows", make, folder / "1", MAKER)


def export_detector(folder: Path) -> None:
    """Export a model from uint8 [N, H, W, 3] to six boxes. One score depends on the image."""

    def make() -> Any:
        import tensorflow as tf

        boxes = tf.constant([[[index / 10, 0.1, 0.9, 1 - index / 10] for index in range(6)]], tf.float32)

        @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="image")])  # type: ignore[untyped-decorator]
        def serve(image: Any) -> dict[str, Any]:
            count = tf.shape(image)[0]
            brightness = tf.reduce_mean(tf.cast(image, tf.float32), axis=[1, 2, 3]) / 255
            known = tf.constant([[0.3, 0.9, 0.6, 0.75, 0.1]], tf.float32)
            scores = tf.concat([tf.tile(known, [count, 1]), 0.3 + brightness[:, tf.newaxis]], axis=1)
            return {
                "detection_boxes": tf.tile(boxes, [count, 1, 1]),
                "detection_scores": scores,
                "detection_classes": tf.tile(tf.constant([[1.0, 18.0, 3.0, 44.0, 5.0, 90.0]]), [count, 1]),
                "raw_detection_boxes": tf.zeros([count, 1000, 4]),
                "num_detections": tf.fill([count], 6.0),
            }

        return serve

    export("six_boxes", make, folder / "1", MAKER)


def copy_two_inputs(folder: Path) -> None:
    """Copy a model with inputs a [N, 2] and k [N]."""
    copy_golden("two_in_two_out", folder)


MODELS = {"1": export_photo, "2": export_photo, "3": export_rows, "4": export_detector, "5": copy_two_inputs}
REQUESTS = {
    "1": (PICTURE, "application/x-image"),
    "2": (PICTURE, "application/x-image"),
    "3": (b"1,2.5,3\n-4,5,6e1\n", "text/csv"),
    "4": (PICTURE, "application/x-image"),
    "5": (b'{"features": [[1, 2.5], [3, 4]], "counts": [1, 2]}', "application/json"),
}


def ask(aws_stack: Stack, model: str, wire: str, body: bytes, content_type: str) -> Any:
    attributes = f"tfs-model-name={model},tfs-transport={wire}"
    return aws_stack.invoke(
        body, Content_Type=content_type, Accept="application/json", X_Amzn_SageMaker_Custom_Attributes=attributes
    )


@pytest.mark.parametrize("number", sorted(REQUESTS))
def test_before_and_after_answer_the_same_over_both_transports(aws_stack: Stack, number: str) -> None:
    answers = [
        ask(aws_stack, f"{stage}-{number}", wire, *REQUESTS[number]) for stage in STAGES for wire in ("grpc", "rest")
    ]
    assert [answer.status_code for answer in answers] == [200] * 4, [answer.text for answer in answers]
    assert {answer.headers["Content-Type"] for answer in answers} == {"application/json"}
    first, *others = [single(answer.json()) for answer in answers]
    assert others == [first] * 3
    assert len(json.dumps(first)) > 20, "an answer that says something"


def single(value: Any) -> Any:
    """Round numbers to float32: a handler that writes Python floats writes more digits."""
    if isinstance(value, dict):
        return {key: single(item) for key, item in value.items()}
    if isinstance(value, list):
        return [single(item) for item in value]
    return float(np.float32(value))


def test_the_five_are_those_of_the_page() -> None:
    assert [number for number, _ in CASES] == sorted(REQUESTS)
    assert all(fenced("python", text.split("**After**")[0]) for _, text in CASES)


def test_what_the_page_says_of_a_body_without_the_keys(aws_stack: Stack) -> None:
    body = b'{"features": [[1, 2]]}'
    assert ask(aws_stack, "before-5", "grpc", body, "application/json").status_code == 500
    assert ask(aws_stack, "after-5", "grpc", body, "application/json").status_code == 400


def test_every_variable_of_aws_that_is_read_is_in_the_table() -> None:
    tables = PAGE.partition("## Five handlers")[0]
    read = known_variables()
    others = ("LIGHTBOX_", "OTEL_", "AIP_", "PORT")
    missing = {name for name in read if not name.startswith(others) and f"`{name}`" not in tables}
    assert not missing
