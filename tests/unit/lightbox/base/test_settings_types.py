"""The forms of values: sizes, transports, ports, models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightbox.base.settings_types import TransportName, parse_image_size
from lightbox.serving.settings_loading import (
    load_settings,
)
from support.parameters import each

from .test_settings import problems


@pytest.mark.parametrize(("text", "size"), [("640", (640, 640)), ("640x480", (640, 480)), (" 10 X 20 ", (10, 20))])
def test_image_size(text: str, size: tuple[int, int]) -> None:
    assert parse_image_size(text) == size


@each("text", ["0", "640x0", "x", "-3", "640x480x3", "123456"])
def test_image_size_refused(text: str) -> None:
    assert problems(LIGHTBOX_OPTIONS=json.dumps({"image_size": text}))


@each(
    ("variable", "text", "wires"),
    [
        ("LIGHTBOX_TRANSPORT", "grpc", "grpc"),
        ("LIGHTBOX_TRANSPORT", "REST", "rest"),
        ("LIGHTBOX_TRANSPORT", "grpc,rest", "grpc rest"),
        ("LIGHTBOX_TRANSPORT", " rest , GRPC ", "rest grpc"),
        ("LIGHTBOX_TRANSPORT", "local,grpc,rest", "local grpc rest"),
        ("PREDICT_USING_GRPC", "True", "grpc"),
        ("PREDICT_USING_GRPC", "false", "rest"),
    ],
)
def test_wires(variable: str, text: str, wires: str) -> None:
    assert load_settings({variable: text}).transports == tuple(TransportName(name) for name in wires.split())


@each("text", ["http", "grpc,soap", "grpc,grpc", ",", "grpc rest", "grpc,true"])
def test_wires_refused(text: str) -> None:
    (line,) = problems(LIGHTBOX_TRANSPORT=text)
    expected = "expected inside, local, grpc, rest, or several with the default one first, such as grpc,rest"
    assert line == f"LIGHTBOX_TRANSPORT: {expected}, got {text!r}"


@each("text", ["9000", "9100-9000", "0-10", "9000-70000", "a-b"])
def test_port_range_refused(text: str) -> None:
    (line,) = problems(SAGEMAKER_SAFE_PORT_RANGE=text)
    assert line.startswith("SAGEMAKER_SAFE_PORT_RANGE: ")


def test_a_default_model_called_none_is_an_unset_one() -> None:
    assert load_settings({"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "None"}).default_model is None
    assert load_settings({"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "none"}).default_model == "none"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cats=/m/cats", {"cats": "/m/cats"}),
        ("a=/m/a,b.2=/m/x=y", {"a": "/m/a", "b.2": "/m/x=y"}),
        ("a=/m/one, two,b=/m/b", {"a": "/m/one, two", "b": "/m/b"}),
    ],
)
def test_models_with_names(text: str, found: dict[str, str]) -> None:
    assert load_settings({"LIGHTBOX_MODELS": text}).models == {name: Path(path) for name, path in found.items()}


@each("text", ["cats", "=/m", "a=", "a=/m,a=/n", "a b=/m"])
def test_models_without_names_or_paths_are_refused(text: str) -> None:
    (line,) = problems(LIGHTBOX_MODELS=text)
    assert line.startswith("LIGHTBOX_MODELS: expected ")


def test_both_names_of_the_wire() -> None:
    assert load_settings({"PREDICT_USING_GRPC": "true"}).transports == (TransportName.GRPC,)
    assert load_settings({"PREDICT_USING_GRPC": "False"}).transports == (TransportName.REST,)
    both = {"PREDICT_USING_GRPC": "true", "LIGHTBOX_TRANSPORT": "rest"}
    assert load_settings(both).transports == (TransportName.REST,)
