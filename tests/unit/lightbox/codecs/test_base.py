"""Codecs describe themselves: the rest of Lightbox knows a content type only by its class in ``codecs``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from flask.testing import FlaskClient
from typing_extensions import override

from lightbox.base.request_context import RequestContext
from lightbox.codecs import COMPRESSIBLE_TYPES, Codecs, codec_classes
from lightbox.codecs.base import Parsed, Reader, Response, Writer
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.media_type import ContentType
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Method, ModelCall, Prediction, SignatureSpec
from lightbox.nginx.configuration import render
from lightbox.openapi.schemas import TEXT, Schema
from lightbox.serving.settings_loading import load_settings
from support import commands
from support.fake_transport import FakeTransport
from support.fakes import fake_app, signature

MADE = "text/x-made"


class MadeCodec(Reader, Writer):
    """A line with a number."""

    media_types: ClassVar[tuple[str, ...]] = (MADE,)
    schema: ClassVar[Schema] = TEXT
    headers: ClassVar[tuple[str, ...]] = ("X-Made",)

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            return ModelCall(signature, {"x": np.array([float(body)], "f4")})

        return Parsed(decode)

    @override
    def encode(self, prediction: Prediction) -> Response:
        return Response(str(prediction.outputs["y"].sum()).encode(), MADE, {"X-Made": "yes"})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    known = codec_classes()
    monkeypatch.setattr("lightbox.codecs.codec_classes", lambda: (*known, MadeCodec))
    fake = FakeTransport()
    floats = ("float32", (None,))
    fake.serve(signature("double", {"x": floats}, {"y": floats}), lambda inputs: {"y": inputs["x"] * 2})
    yield fake_app(fake, {"double": ModelOptions()}, {"LIGHTBOX_OPENAPI": "true"}).test_client()


def test_a_codec_is_read_written_and_described_by_itself(client: FlaskClient) -> None:
    answer = client.post("/invocations", data=b"1.5", headers={"Content-Type": MADE, "Accept": MADE})
    assert (answer.data, answer.mimetype) == (b"3.0", MADE)
    refused = client.post("/invocations", data=b"1.5", headers={"Content-Type": "text/other", "Accept": MADE})
    assert f", {MADE}, or an image" in refused.get_json()["error"]
    invoke = client.get("/openapi.json").get_json()["paths"]["/invocations"]["post"]
    ok = invoke["responses"]["200"]
    assert invoke["requestBody"]["content"][MADE] == ok["content"][MADE] == {"schema": TEXT}
    assert ok["headers"]["X-Made"] == {"schema": TEXT}


def test_a_415_names_the_media_types_of_all_readers() -> None:
    client = fake_app(FakeTransport(), {"any": ModelOptions()}).test_client()
    answer = client.post("/invocations", data=b"1", headers={"Content-Type": "text/other"})
    named = ", ".join(name for codec in Codecs(CodecOptions()).readers for name in codec.media_types)
    assert named.startswith("application/x-image, image/*, application/json, application/jsonlines, ")
    assert answer.get_json()["error"] == (
        f"Content-Type: expected {named}, or an image as application/octet-stream; got 'text/other'"
    )


@pytest.mark.parametrize(
    ("module", "there"), [("lightbox.serving.worker", True), ("lightbox.supervisor.supervisor", False)]
)
def test_workers_import_codecs_before_the_fork_and_the_supervisor_never(module: str, there: bool) -> None:
    code = f"import sys, {module}; print({{'lightbox.codecs.npy', 'numpy'}} <= sys.modules.keys())"
    printed = commands.output([sys.executable, "-c", code])
    assert printed.strip() == str(there)


def test_nginx_compresses_the_responses_of_all_codecs(tmp_path: Path) -> None:
    writers = [codec for codec in codec_classes() if issubclass(codec, Writer) and not codec.draws]
    assert tuple(codec.media_types[0] for codec in writers) == COMPRESSIBLE_TYPES
    conf = render(load_settings({}), tmp_path, {"SIDECAR": "unix:a", "HEALTH": "unix:b"}, 1 << 28)
    assert f"gzip_types {' '.join(COMPRESSIBLE_TYPES)};" in conf
