"""A model loaded in process returns the endpoint's answer for pictures of the corpus, and for user code."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lightbox
from lightbox.base.errors import LightboxError, StartError
from lightbox.model_runtime.cores import available_cores
from lightbox.tools.offline import Model
from support.parameters import each
from support.stack import REPOSITORY, Stack, running

CORPUS = sorted(
    path
    for kind in ("valid", "invalid")
    for path in (REPOSITORY / "tests" / "corpus" / kind).iterdir()
    if path.suffix != ".json"
)
ENGINE = "tensorflow"
BOTH_APIS = {
    "lightbox_api": """
from PIL import Image
import numpy as np
from lightbox import BadRequest

def preprocess(request):
    image = request.images[0]
    if image.width < 3:
        raise BadRequest(f"expected 3 pixels, got {image.width}", status=422)
    return {next(iter(request.signature.inputs)): np.asarray(image.resize((8, 8)))[None]}

def postprocess(outputs, request):
    (scores,) = outputs.values()
    return {"best": int(scores.argmax()), "size": request.image_sizes[0], "odd": float("nan"), "of": request.model_name}
""",
    "pair": """
import io, json
import numpy as np
from PIL import Image

def input_handler(data, context):
    image = Image.open(io.BytesIO(data.read())).convert("RGB").resize((8, 8))
    return json.dumps({"instances": [np.asarray(image).tolist()]})

def output_handler(response, context):
    told = [context.model_name, context.request_content_type, context.accept_header, context.content_length]
    return json.dumps({"best": response.json()["predictions"][0], "told": told}), "application/json"
""",
    "text": """
def postprocess(outputs, request):
    return "seven", "text/plain"
""",
}


@pytest.fixture(scope="module")
def models(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier, and a model with each kind of user code."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(sample_models / "mobilenet_v2", folder / "mobilenet_v2")
    for name, source in BOTH_APIS.items():
        shutil.copytree(sample_models / "digits", folder / name)
        (folder / name / "code" / "inference.py").write_text(source)
    return folder


@pytest.fixture(scope="module")
def stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "mobilenet_v2", "LIGHTBOX_ENGINE": ENGINE}
    with running(models, tmp_path_factory.mktemp("stack"), **environ) as found:
        yield found


@pytest.fixture(scope="module")
def model(models: Path) -> Model:
    found: Model = lightbox.load(models / "mobilenet_v2", engine=ENGINE)
    return found


@pytest.fixture(scope="module")
def alone(model: Model) -> dict[Path, Any]:
    """Return each picture's answer of a call of its own."""
    return {path: outcome(model, path) for path in CORPUS[::4]}


def outcome(model: Model, image: Any) -> Any:
    try:
        return model.predict(image)
    except LightboxError as error:
        return {"error": error.message, "code": error.code}


@each("path", CORPUS[::4])
def test_a_picture_is_answered_as_by_an_endpoint(stack: Stack, model: Model, path: Path) -> None:
    answer = stack.invoke(path.read_bytes(), Content_Type="application/x-image").json()
    expected = answer["predictions"][0] if "predictions" in answer else {key: answer[key] for key in ("error", "code")}
    found = outcome(model, path)
    if isinstance(expected, list):
        # Equal but for rounding: how many threads add up with TensorFlow is up to a process's first session, here
        # another test's.
        found, expected = np.array(found, np.float32), np.array(expected, np.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0, err_msg=path.name)
    else:
        assert found == expected, path.name


def test_many_are_answered_as_one_in_order(model: Model, alone: dict[Path, Any]) -> None:
    answers = list(model.predict_many(alone))
    for path, answer in zip(alone, answers, strict=True):
        if isinstance(answer, LightboxError):
            answer = {"error": answer.message, "code": answer.code}  # noqa: PLW2901
        assert answer == alone[path], path.name


def test_threads_share_a_model(model: Model, alone: dict[Path, Any]) -> None:
    paths = [*alone][:20] * 3
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda path: outcome(model, path), paths)) == [alone[path] for path in paths]


def test_of_the_environment_only_the_limits_that_errors_name_count(
    sample_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTBOX_MAX_IMAGE_PIXELS", "1000000")
    monkeypatch.setenv("LIGHTBOX_MAX_BODY_MB", "1")
    monkeypatch.setenv("LIGHTBOX_ENGINE", "none")
    monkeypatch.setenv("LIGHTBOX_OPTIONS", '{"top_k": 1}')
    small, large = (np.zeros((side, side, 3), np.uint8) for side in (1000, 1001))
    (tmp_path / "long.jpg").write_bytes(bytes((1 << 20) + 1))
    model = lightbox.load(sample_models / "digits")
    good, *failed = model.predict_many([small, large, tmp_path / "long.jpg", (tmp_path / "long.jpg").read_bytes()])
    assert len(good) == 10
    assert {error.code for error in failed} == {"too_large"}
    pixels, *lengths = (error.message for error in failed)
    assert "LIGHTBOX_MAX_IMAGE_PIXELS" in pixels
    assert lengths == ["the request body is larger than LIGHTBOX_MAX_BODY_MB=1 MiB"] * 2
    for limit in ("LIGHTBOX_MAX_IMAGE_PIXELS", "LIGHTBOX_MAX_BODY_MB"):
        with monkeypatch.context() as set_wrongly, pytest.raises(StartError, match=f"{limit}: "):
            set_wrongly.setenv(limit, "many")
            lightbox.load(sample_models / "digits")


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads_are_no_number_of_them(sample_models: Path, threads: int) -> None:
    with pytest.raises(StartError, match=f"threads: expected at least 1, got {threads}"):
        lightbox.load(sample_models / "digits", threads=threads)


def test_more_threads_than_cores_wait_for_each_other(sample_models: Path) -> None:
    model, pixels = lightbox.load(sample_models / "digits"), np.zeros((1500, 1500, 3), np.uint8)
    with ThreadPoolExecutor(8 * available_cores()) as pool:
        answers = list(pool.map(model.predict, [pixels] * 16 * available_cores()))
    assert all(answer == answers[0] for answer in answers)


def test_json_of_user_code_that_is_none_is_its_failure(sample_models: Path, tmp_path: Path) -> None:
    shutil.copytree(sample_models / "digits", tmp_path / "digits")
    code = tmp_path / "digits" / "code"
    code.mkdir(exist_ok=True)
    (code / "inference.py").write_text('def postprocess(outputs, request):\n    return b"{no", "application/json"\n')
    (answer,) = lightbox.load(tmp_path / "digits").predict_many([np.zeros((8, 8, 3), np.uint8)])
    assert answer.code == "handler_failed" and "no JSON" in answer.message


def test_pictures_come_as_they_are_at_hand(model: Model, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    image, file = Image.fromarray(pixels), io.BytesIO()
    image.save(file, "PNG")
    (tmp_path / "a.png").write_bytes(file.getvalue())
    answers = list(model.predict_many([file.getvalue(), tmp_path / "a.png", str(tmp_path / "a.png"), image, pixels]))
    assert all(answer == answers[0] for answer in answers)
    assert isinstance(next(model.predict_many([tmp_path / "gone.png"])), FileNotFoundError)
    (probabilities,) = model.predict_arrays(image).values()
    assert probabilities.shape == (1, 1000)
    np.testing.assert_array_equal(probabilities[0], np.array(answers[0], np.float32))


def without_addresses(answer: Any) -> str:
    """Return an answer as comparable text: Pillow's messages contain addresses, and NaN differs from itself."""
    return re.sub("0x[0-9a-f]+", "", repr(answer))


def test_user_code_answers_as_at_an_endpoint(stack: Stack, models: Path) -> None:
    loaded = {name: lightbox.load(models / name, engine=ENGINE) for name in BOTH_APIS}
    for path in [path for path in CORPUS if path.suffix in (".png", ".jpg")][::4]:
        for name, model in loaded.items():
            headers = {
                "Content_Type": "application/x-image",
                "Accept": "application/json",
                "X_Amzn_SageMaker_Custom_Attributes": f"tfs-model-name={name}",
            }
            answer = stack.invoke(path.read_bytes(), **headers)
            is_json = answer.headers["Content-Type"] == "application/json"
            content: Any = json.loads(answer.text) if is_json else answer.text
            if answer.status_code != 200:
                content = {key: content[key] for key in ("error", "code")}
            assert without_addresses(outcome(model, path)) == without_addresses(content), (name, path.name)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def handler(data, context): ...", "its inference.py has handler(data, context), which calls a model server"),
        ("def preproces(request): ...", "preproces"),
    ],
)
def test_user_code_that_cannot_run_here_is_a_sentence(
    sample_models: Path, tmp_path: Path, source: str, words: str
) -> None:
    shutil.copytree(sample_models / "digits", tmp_path / "digits")
    (tmp_path / "digits" / "code" / "inference.py").write_text(source)
    with pytest.raises(StartError) as caught:
        lightbox.load(tmp_path / "digits")
    assert words in str(caught.value)


def test_a_pair_that_needs_a_server_gets_an_error(sample_models: Path, tmp_path: Path) -> None:
    shutil.copytree(sample_models / "digits", tmp_path / "digits")
    pair = "def input_handler(data, context): return {}\ndef output_handler(response, context): ..."
    for wanted in ("context.channel.unary_unary('/x')", "context.rest_uri", "context.grpc_port"):
        (tmp_path / "digits" / "code" / "inference.py").write_text(pair.format(wanted))
        with pytest.raises(LightboxError) as caught:
            lightbox.load(tmp_path / "digits").predict(CORPUS[0])
        assert caught.value.code == "handler_failed"
        assert caught.value.message.startswith(wanted.partition(".unary")[0] + ": ")
