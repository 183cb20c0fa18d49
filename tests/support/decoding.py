"""Request bodies decoded without an app around them."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from lightbox.base.request_context import RequestContext
from lightbox.codecs import Codecs
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, Method, ModelCall
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support.fakes import Tensor, signature
from support.patience import PATIENCE

FLOATS: Mapping[str, Tensor] = {"x": ("float32", (None,))}
PIXELS: Mapping[str, Tensor] = {"image": ("uint8", (None, 2, 2, 3))}
TEXTS: Mapping[str, Tensor] = {"text": ("string", (None,))}


def decode(
    body: bytes | str,
    content_type: str = "application/json",
    inputs: Mapping[str, Tensor] = FLOATS,
    outputs: Mapping[str, Tensor] | None = None,
    method: Method = Method.PREDICT,
    environ: Mapping[str, str] | None = None,
) -> ModelCall:
    """Decode a body for a model with these inputs; its signature has the name in the body."""
    spec = signature("net", inputs, outputs or {"y": ("float32", (None,))})
    data = body.encode() if isinstance(body, str) else body
    codecs = Codecs(codec_options(load_settings(environ or {})))
    return codecs.parse(data, content_type, method, RequestContext(PATIENCE)).decode(spec, ModelOptions())


def tensor(
    body: bytes | str,
    content_type: str = "application/json",
    dtype: str = "float32",
    shape: tuple[int | None, ...] | None = (None,),
) -> Array:
    """Decode a body for a model with one input; return the input after the check before every predict."""
    request = decode(body, content_type, {"x": (dtype, shape)})
    request.signature.check_inputs(request.inputs)
    return request.inputs["x"]


def b64(data: bytes) -> str:
    """Return base64 as JSON carries it."""
    return base64.b64encode(data).decode()
