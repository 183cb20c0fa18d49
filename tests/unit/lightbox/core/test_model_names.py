"""The models that requests of each protocol name, found before their bodies are read."""

from __future__ import annotations

from pathlib import Path

from lightbox.core.attributes import CUSTOM_ATTRIBUTES
from lightbox.core.model_names import ModelNames
from lightbox.features import FEATURES
from lightbox.features.open_inference.grpc.messages import message_class
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import PlannedModels, ServingPlan
from lightbox.model_runtime.wire.protobuf import varint
from support.parameters import each

MODELS = {name: PlannedModel(name=name, base_path=Path("/m"), options=ModelOptions()) for name in ("cats", "dogs")}
PATHS = [path for feature in FEATURES for path in feature.model_paths]
NAMES = ModelNames(PlannedModels(ServingPlan(models=MODELS, default_model="cats", model_servers=())), PATHS)


@each(
    "method, path, attributes, model",
    [
        ("POST", "/invocations", None, "cats"),
        ("POST", "/invocations", "tfs-model-name=dogs", "dogs"),
        ("POST", "/invocations", "tfs-model-name=birds", ""),
        ("POST", "/v2/models/dogs/infer", None, "dogs"),
        ("POST", "/v2/models/dogs/versions/1/infer", "tfs-model-name=cats", "dogs"),
        ("POST", "/v2/models/birds/infer", None, ""),
        ("POST", "/v1/models/dogs:predict", None, "dogs"),
        ("POST", "/v1/models/dogs/versions/2:predict", None, "dogs"),
        ("POST", "/models/dogs/invoke", None, "dogs"),
        ("GET", "/v2/models/dogs", None, "dogs"),
        ("GET", "/v2", None, ""),
    ],
)
def test_the_model_of_a_request(method: str, path: str, attributes: str | None, model: str) -> None:
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path}
    if attributes is not None:
        environ["HTTP_" + CUSTOM_ATTRIBUTES.upper().replace("-", "_")] = attributes
    assert NAMES.of_request(environ) == model


def field(content: bytes) -> bytes:
    return b"\x0a" + varint(len(content)) + content


@each(
    "message, model",
    [
        (message_class("inference.ModelInferRequest")(model_name="dogs", id="1").SerializeToString(), "dogs"),
        (message_class("inference.ModelInferRequest")(id="1").SerializeToString(), "cats"),
        (message_class("inference.ModelInferRequest")(model_name="birds").SerializeToString(), ""),
        (field(field(b"dogs")), "dogs"),  # TensorFlow Serving's ModelSpec
        (b"\xff\xff", "cats"),
    ],
)
def test_the_model_of_a_message(message: bytes, model: str) -> None:
    assert NAMES.of_message(message, lambda name: None) == model
