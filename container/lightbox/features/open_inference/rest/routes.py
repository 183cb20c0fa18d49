"""REST responses: outputs in JSON, or as blobs after it."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Blueprint, g, request
from flask import Response as HttpResponse

from lightbox.base.errors import MalformedBody, ModelNotFound, NotAcceptable
from lightbox.base.request_context import Header, RequestContext
from lightbox.codecs.base import Response
from lightbox.codecs.json_parsing import parse_values
from lightbox.codecs.json_text import to_json
from lightbox.codecs.media_type import parse_content_type
from lightbox.core.attributes import CustomAttributes
from lightbox.core.http import http_response, json_body, received_body
from lightbox.core.operations import ANYWHERE, OF_A_LOAD, OF_A_MODEL, described, json_operation
from lightbox.core.request import Body, Call, Respond, TensorResponse
from lightbox.features.open_inference.dataplane import DataPlane, InferRequest, read_attributes, version_number
from lightbox.features.open_inference.rest.body import is_request, read_body
from lightbox.features.open_inference.schemas import inference
from lightbox.features.open_inference.tensors import (
    BYTES,
    JSON_LENGTH,
    TRITON_TYPE,
    datatype_of,
    to_blob,
)
from lightbox.model.spec import Array
from lightbox.model_runtime.wire.rest.number_lists import parsing_bytes
from lightbox.openapi.schemas import TEXT, ref, struct
from lightbox.user_code.aws import AwsHandlers

SIZE = "json-header-size"
JSON_TYPES = ("", "application/json", "application/octet-stream")
"""The marker with which callers of SageMaker's Triton containers declare a body of JSON alone."""
_CHANGE = json_operation(struct({}), OF_A_LOAD)
_INDEX_CODES = ANYWHERE | {"malformed_body", "unsupported_media_type"}
_WANTED = {"type": "object", "properties": {"ready": {"type": "boolean", "description": "Leave out the others."}}}


def encode_response(response: TensorResponse, request: InferRequest) -> Response:
    """Return the body with each output in the requested form."""
    outputs, blobs = [], []
    for name, array in response.outputs.items():
        entry: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if request.binary.get(name, request.binary_default):
            blobs.append(to_blob(array))
            entry["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            entry["data"] = _data(name, array)
        outputs.append(entry)
    document: dict[str, Any] = {
        "model_name": response.signature.model,
        "model_version": str(response.signature.version),
        "outputs": outputs,
    }
    if request.id:
        document["id"] = request.id
    text = to_json(document)
    if not blobs:
        return Response(text, "application/json")
    return Response(b"".join([text, *blobs]), "application/octet-stream", {JSON_LENGTH: str(len(text))})


def _data(name: str, array: Array) -> Any:
    if datatype_of(array) != BYTES:
        return array.ravel()
    try:
        return [element.decode() for element in array.ravel().tolist()]
    except UnicodeDecodeError:
        raise NotAcceptable(f"output {name}: it is not text; request it with binary_data") from None


class TritonBodies:
    """Answers the protocol's bodies on SageMaker's routes."""

    media_types = (TRITON_TYPE,)
    protocol = "the Open Inference Protocol"

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    def __call__(self, call: Call[Response], header: Header, context: RequestContext, respond: Respond) -> Response:
        """Answer with blobs if an output asks for one, else in JSON. Raises LightboxError."""
        content = call.content
        assert isinstance(content, Body), "SageMaker's routes take bodies"
        size = parse_content_type(content.content_type).parameters.get(SIZE)
        if size is None:
            raise MalformedBody(f"Content-Type: expected {TRITON_TYPE};{SIZE}=N, the length of the JSON; got no {SIZE}")
        return _infer(self._plane, call, content.body, size, read_attributes(header), context)


class JsonBodies:
    """Answers requests of the protocol in plain JSON on SageMaker's routes; passes others on.

    User code that reads bodies gets these requests too.
    """

    media_types = JSON_TYPES
    protocol = ""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    def __call__(self, call: Call[Response], header: Header, context: RequestContext, respond: Respond) -> Response:
        """Answer as ``TritonBodies`` does, or call ``respond``. Raises LightboxError."""
        content = call.content
        assert isinstance(content, Body), "SageMaker's routes take bodies"
        if not is_request(content.body, context) or self._goes_to_user_code(call):
            return respond(call, context)
        return _infer(self._plane, call, content.body, None, read_attributes(header), context)

    def _goes_to_user_code(self, call: Call[Response]) -> bool:
        """Return whether a function of the user's reads the body; an unknown model may have one too."""
        try:
            _, handlers = self._plane.pipeline.served(call.model)
        except ModelNotFound:
            return True
        return isinstance(handlers, AwsHandlers) or handlers.preprocess is not None


def _infer(
    plane: DataPlane,
    call: Call[Response],
    body: bytes,
    size: str | None,
    attributes: CustomAttributes,
    context: RequestContext,
) -> Response:
    """Answer a body on SageMaker's routes; ``size`` is the length of its JSON, None if all of it is JSON.

    The media type has the length of the response's JSON, as InvokeEndpoint passes on no other header.
    """
    model = call.model or attributes.model
    find = partial(plane.pipeline.describe, model, attributes.version, context, attributes.signature)
    asked = read_body(body, (f"Content-Type: {SIZE}", size), find, context)
    response = plane.model_infer(asked, model, "", attributes, context)
    with context.stage("postprocess"):
        encoded = encode_response(response, asked)
    length = encoded.headers.get(JSON_LENGTH)
    return encoded if length is None else Response(encoded.body, f"{TRITON_TYPE};{SIZE}={length}")


def kserve_blueprint(plane: DataPlane, max_body_mb: int) -> Blueprint:
    """Return the routes; ``max_body_mb`` limits a decompressed body in MiB."""
    blueprint, pipeline = Blueprint("Open Inference Protocol", __name__, url_prefix="/v2"), plane.pipeline

    @blueprint.get("", endpoint="server")
    @blueprint.get("/", endpoint="server_slash")
    @described(json_operation("ServerMetadata"))
    def server_metadata() -> HttpResponse:
        """Server metadata."""
        return _json(plane.server_metadata())

    @blueprint.get("/models/<model>/ready", endpoint="ready")
    @blueprint.get("/models/<model>/versions/<version>/ready", endpoint="ready_of_version")
    @described(json_operation(struct({"name": TEXT, "ready": {"const": True}}), OF_A_MODEL), by_model=True)
    def model_ready(model: str, version: str = "") -> HttpResponse:
        """Whether a model, or a version of it, can answer."""
        return _json({"name": model, "ready": plane.model_ready(model, version, g.context)})

    @blueprint.get("/models/<model>", endpoint="metadata")
    @blueprint.get("/models/<model>/versions/<version>", endpoint="metadata_of_version")
    @described(json_operation("ModelMetadata", OF_A_MODEL), by_model=True)
    def model_metadata(model: str, version: str = "") -> HttpResponse:
        """Inputs and outputs of a model."""
        found = plane.model_metadata(model, version, g.context)
        return _json(found | plane.model_parameters(model, version, g.context))

    @blueprint.get("/models/<model>/config", endpoint="config")
    @blueprint.get("/models/<model>/versions/<version>/config", endpoint="config_of_version")
    @described(json_operation("ModelConfig", OF_A_MODEL), by_model=True)
    def model_config(model: str, version: str = "") -> HttpResponse:
        """Configuration of a model, as Triton returns it."""
        return _json(plane.model_config(model, version, g.context))

    # Otherwise the path is that of a model's metadata.
    if pipeline.catalogue.is_fixed and "stats" not in pipeline.models():

        @blueprint.get("/models/stats", endpoint="statistics_of_all")
        @described(json_operation("ModelStatistics"))
        def all_statistics() -> HttpResponse:
            """Counts and times of all models' predictions."""
            return _json(plane.model_statistics("", "", g.context))

    @blueprint.get("/models/<model>/stats", endpoint="statistics")
    @blueprint.get("/models/<model>/versions/<version>/stats", endpoint="statistics_of_version")
    @described(json_operation("ModelStatistics", OF_A_MODEL), by_model=True)
    def model_statistics(model: str, version: str = "") -> HttpResponse:
        """Counts and times of a model's predictions."""
        return _json(plane.model_statistics(model, version, g.context))

    @blueprint.post("/models/<model>/infer", endpoint="infer")
    @blueprint.post("/models/<model>/versions/<version>/infer", endpoint="infer_version")
    @described(inference, by_model=True)
    def model_infer(model: str, version: str = "") -> HttpResponse:
        """Predict."""
        attributes = read_attributes(request.headers.get)
        length = (JSON_LENGTH, request.headers.get(JSON_LENGTH))
        number = version_number(version) if version else attributes.version
        find = partial(pipeline.describe, model, number, g.context, attributes.signature)
        held = plane.target(model, request.headers.get, g.context)
        with held, received_body(request.environ, pipeline.memory, max_body_mb) as body:
            asked = read_body(body, length, find, g.context)
            response = plane.model_infer(asked, model, version, attributes, g.context)
            with g.context.stage("postprocess"):
                encoded = encode_response(response, asked)
        return http_response(encoded)

    @blueprint.post("/repository/index")
    @described(
        json_operation(
            {"type": "array", "items": ref("RepositoryModel")}, _INDEX_CODES, _WANTED, is_body_required=False
        )
    )
    def repository_index() -> HttpResponse:
        """All models with their state."""
        with received_body(request.environ, pipeline.memory, max_body_mb) as body:
            ready_only = _object(body, g.context).get("ready") is True
        return _json(plane.repository_index(ready_only, g.context))

    @blueprint.post("/repository/models/<model>/load", endpoint="repository_load")
    @described(_CHANGE, changes_models=True)
    def repository_model_load(model: str) -> HttpResponse:
        """Load a model."""
        with received_body(request.environ, pipeline.memory, max_body_mb) as body:
            wanted = _object(body, g.context)
        plane.repository_model_load(model, wanted.get("parameters") or (), g.context)
        return _json({})

    @blueprint.post("/repository/models/<model>/unload", endpoint="repository_unload")
    @described(_CHANGE, changes_models=True)
    def repository_model_unload(model: str) -> HttpResponse:
        """Unload a model."""
        plane.repository_model_unload(model, g.context)
        return _json({})

    return blueprint


def _object(body: bytes, context: RequestContext) -> dict[str, Any]:
    if not body.strip():
        return {}
    context.memory.hold(len(body) + parsing_bytes(body), "the JSON")
    (wanted, *_) = parse_values(body)
    if not isinstance(wanted, dict):
        raise MalformedBody('the body: expected a JSON object such as {"ready": true}')
    return wanted


def _json(value: Any) -> HttpResponse:
    return HttpResponse(json_body(value), mimetype="application/json")
