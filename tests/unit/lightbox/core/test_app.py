"""The sidecar's routes over a fake model server: responses, headers, and the common form of every error."""

from __future__ import annotations

import gc
import io
import math
import re
import time
from collections.abc import Mapping

import numpy as np
import pytest
from flask.testing import FlaskClient
from PIL import Image

from lightbox.base import request_context
from lightbox.base.errors import DeadlineExceeded, InputMismatch, ModelFailed, Unavailable
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, png, signature
from support.parameters import each
from support.patience import PATIENCE

IMAGE = png(np.full((4, 4, 3), (10, 20, 30)))


@pytest.fixture
def client(transport: FakeTransport) -> FlaskClient:
    return fake_app(transport, {"mean": ModelOptions(), "other": ModelOptions()}).test_client()


def attributes(text: str) -> dict[str, str]:
    return {"X-Amzn-SageMaker-Custom-Attributes": text}


@pytest.mark.parametrize("media_type", ["image/png", "image/whatever", "application/octet-stream", None])
def test_an_image_under_any_of_its_names(client: FlaskClient, media_type: str | None) -> None:
    assert client.post("/invocations", data=IMAGE, content_type=media_type).status_code == 200


def test_every_answer_carries_server_timing_and_a_request_id(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_context, "LEAST_QUEUE_SECONDS", math.inf)  # a busy machine adds no queue stage
    answer = client.post("/invocations", data=IMAGE, content_type="image/png")
    stages = [part.split(";")[0] for part in answer.headers["Server-Timing"].split(", ")]
    assert stages == ["receive", "signature", "decode", "preprocess", "predict", "postprocess", "other", "total"]
    assert answer.headers["X-Amzn-RequestId"]
    assert "total;dur=" in client.get("/nowhere").headers["Server-Timing"]


@each(
    ("body", "headers", "status", "code", "said"),
    [
        (b"no image", {"Content-Type": "image/png"}, 400, "image_undecodable", "image"),
        (IMAGE[:50], {"Content-Type": "image/png"}, 400, "image_undecodable", ""),
        (IMAGE, {"Content-Type": "video/mp4"}, 415, "unsupported_media_type", "application/x-image"),
        (b"no image", {}, 400, "malformed_body", "without a Content-Type"),
        (IMAGE, {"Accept": "text/html"}, 406, "not_acceptable", "application/json"),
        (IMAGE, attributes("tfs-model-name=nobody"), 404, "model_not_found", "mean"),
        (IMAGE, attributes("tfs-model-name=other"), 404, "model_not_found", "other"),
        (IMAGE, attributes("tfs-model-version=7"), 404, "model_not_found", "7"),
        (IMAGE, attributes("tfs-model-version=new"), 400, "bad_request", "tfs-model-version"),
        (IMAGE, attributes("tfs-transport=local"), 400, "bad_request", "local turns it on with the embedded"),
        (IMAGE, attributes("tfs-transport=smoke"), 400, "bad_request", "grpc or rest, got 'smoke'"),
    ],
)
def test_errors_name_what_was_expected(
    client: FlaskClient, body: bytes, headers: dict[str, str], status: int, code: str, said: str
) -> None:
    answer = client.post("/invocations", data=body, headers=headers)
    assert answer.status_code == status, answer.get_data(as_text=True)
    assert answer.get_json().keys() == {"error", "code", "request_id"}
    assert answer.get_json()["code"] == code
    assert said in answer.get_json()["error"]


def test_unrelated_attributes_are_ignored(client: FlaskClient) -> None:
    headers = attributes("trace=1, tfs-model-name=mean ,, x")
    assert client.post("/invocations", data=IMAGE, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (InputMismatch("x"), 400),
        (ModelFailed("x"), 502),
        (Unavailable("x", retry_after=3), 503),
        (DeadlineExceeded("x"), 504),
        (RuntimeError("secret"), 500),
    ],
)
def test_failures_of_the_model_server(
    transport: FakeTransport, raised: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> dict[str, object]:
        raise raised

    transport.serve(mean_model(), fail)  # type: ignore[arg-type]
    client = fake_app(transport, {"mean": ModelOptions()}).test_client()
    answer = client.post("/invocations", data=IMAGE)
    assert answer.status_code == status
    assert "secret" not in answer.get_data(as_text=True)
    assert answer.headers.get("Retry-After") == ("3" if status == 503 else None)
    logged = [bool(record.exc_info) for record in caplog.records if record.name == "lightbox"]
    assert logged == ([status == 500] if status >= 500 else []), "only a bug has a traceback"


@pytest.mark.parametrize(("path", "status"), [("/invocations", 504), ("/endpoints/any/invocations", 424)])
def test_a_request_that_has_waited_past_its_time_is_not_begun(
    client: FlaskClient, transport: FakeTransport, path: str, status: int
) -> None:
    def fail(_: object) -> dict[str, object]:
        raise AssertionError("it was begun")

    transport.serve(mean_model(), fail)  # type: ignore[arg-type]
    began, waited = time.time(), 2 * PATIENCE
    late = client.post(path, data=IMAGE, headers={"X-Lightbox-Received": f"{began - waited:.3f}"})
    assert late.status_code == status
    (reply,) = set(re.findall(r"waited ([\d.]+) s", late.get_data(as_text=True)))
    assert waited - 0.1 <= float(reply) <= waited + time.time() - began + 0.1


@pytest.mark.parametrize(
    "arrived",
    ["", "soon", "nan"]
    # Where the wall clock is set between nginx and the worker, these differ by any time.
    + [pytest.param(f"{time.time() + hours * 3600:.3f}", id=f"{hours} hours") for hours in (1, -1, -24)],
)
def test_an_odd_time_of_arrival_does_not_count(client: FlaskClient, arrived: str) -> None:
    assert client.post("/invocations", data=IMAGE, headers={"X-Lightbox-Received": arrived}).status_code == 200


def test_a_body_beyond_the_limit_names_the_setting(transport: FakeTransport) -> None:
    app = fake_app(transport, {"mean": ModelOptions()}, {"LIGHTBOX_MAX_BODY_MB": "1"})
    answer = app.test_client().post("/invocations", data=bytes(2 << 20))
    assert answer.status_code == 413
    assert "LIGHTBOX_MAX_BODY_MB=1" in answer.get_json()["error"]


def test_an_image_of_too_many_pixels_names_the_setting(transport: FakeTransport) -> None:
    app = fake_app(transport, {"mean": ModelOptions()}, {"LIGHTBOX_MAX_IMAGE_PIXELS": "15"})
    answer = app.test_client().post("/invocations", data=IMAGE)
    assert answer.status_code == 413
    assert "LIGHTBOX_MAX_IMAGE_PIXELS" in answer.get_json()["error"]


def test_the_endpoint_route_gives_errors_as_sagemaker_does(client: FlaskClient) -> None:
    good = client.post("/endpoints/any/invocations", data=IMAGE)
    assert good.get_json() == {"predictions": [[10, 20, 30]]}
    bad = client.post("/endpoints/any/invocations", data=b"x", content_type="image/png")
    assert bad.status_code == 424
    assert bad.headers["x-amzn-ErrorType"] == "ModelError"
    assert bad.get_json()["OriginalStatusCode"] == 400
    assert '"code":"image_undecodable"' in bad.get_json()["OriginalMessage"]


def test_a_model_of_open_size_gets_the_images_own_or_the_options(transport: FakeTransport) -> None:
    transport.serve(mean_model(side=None), channel_means)
    wide = png(np.zeros((5, 7, 3)))
    fake_app(transport, {"mean": ModelOptions()}).test_client().post("/invocations", data=wide)
    assert transport.calls[-1].inputs["image"].shape == (1, 5, 7, 3)
    fake_app(transport, {"mean": ModelOptions(image_size=(6, 3))}).test_client().post("/invocations", data=wide)
    assert transport.calls[-1].inputs["image"].shape == (1, 3, 6, 3)


def test_a_model_of_encoded_images_gets_the_bytes_as_they_came() -> None:
    transport = FakeTransport()
    spec = signature("net", {"image_bytes": ("string", (None,))}, {"n": ("int64", (None,))})
    transport.serve(spec, lambda inputs: {"n": np.array([len(inputs["image_bytes"][0])])})
    client = fake_app(transport, {"net": ModelOptions()}).test_client()
    assert client.post("/invocations", data=IMAGE).get_json() == {"predictions": [len(IMAGE)]}
    assert client.post("/invocations", data=b"no image", content_type="image/png").status_code == 400


def test_outputs_without_a_batch_dimension_come_by_name() -> None:
    transport = FakeTransport()
    spec = signature("net", {"image": ("uint8", (None, 2, 2, 3))}, {"total": ("float32", ())})
    transport.serve(spec, lambda inputs: {"total": np.float32(inputs["image"].sum())})  # type: ignore[dict-item]
    client = fake_app(transport, {"net": ModelOptions()}).test_client()
    assert client.post("/invocations", data=png(np.ones((2, 2, 3)))).get_json() == {"outputs": {"total": 12.0}}


def test_a_model_that_takes_no_image_says_what_it_takes() -> None:
    transport = FakeTransport()
    transport.serve(signature("net", {"x": ("float32", (None,))}, {}), lambda inputs: {})
    answer = fake_app(transport, {"net": ModelOptions()}).test_client().post("/invocations", data=IMAGE)
    assert answer.status_code == 415
    assert "x (float32 [-1])" in answer.get_json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/invocations", b"{", {"Content-Type": "application/json"}, 400),
        ("/invocations", b"no image", {"Content-Type": "image/png"}, 400),
        ("/invocations", b"\x1f\x8b\x08 no gzip", {"Content-Encoding": "gzip"}, 400),
        ("/invocations", b"", {"Content-Encoding": "br"}, 415),
        ("/endpoints/any/invocations", b"{", {"Content-Type": "application/json"}, 424),
        ("/v2/models/mean/infer", b"{", {}, 400),
        (
            "/v2/models/mean/infer",
            b'{"inputs":[{"name":"image","shape":[1],"datatype":"FP32","data":[1e39]}]}',
            {},
            400,
        ),
        ("/nowhere", b"", {}, 404),
        ("/invocations", IMAGE, {"Content-Type": "image/png"}, 500),
    ],
)
def test_a_failed_request_keeps_no_body_until_the_collector_comes(
    client: FlaskClient, transport: FakeTransport, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    if status == 500:
        transport.serve(mean_model(), lambda inputs: {"none": inputs["none"]})
    gc.disable()
    gc.freeze()  # only what the request leaves is looked through
    try:
        assert client.post(path, data=body, headers=headers).status_code == status
        assert [found for found in gc.get_objects() if isinstance(found, BaseException) and found.__traceback__] == []
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_what_curl_makes_of_a_file_with_d_is_reported(client: FlaskClient, kind: str) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(3).integers(0, 255, (40, 40, 3), np.uint8)).save(buffer, kind)
    mangled = buffer.getvalue().replace(b"\r", b"").replace(b"\n", b"")
    answer = client.post("/invocations", data=mangled, content_type="application/x-www-form-urlencoded")
    assert answer.status_code in (400, 415)
    assert answer.get_json()["error"].endswith("curl -d removes the line breaks of a file: use --data-binary @FILE")


def test_a_model_with_channels_first_gets_them_first() -> None:
    """The pixels are the same in another order, in memory too."""
    fake, came = FakeTransport(), list[Array]()

    def answer(inputs: Mapping[str, Array]) -> dict[str, Array]:
        came.append(inputs["x"])
        return {"y": np.zeros(1, np.float32)}

    shapes = {"first": (None, 3, 5, 7), "last": (None, 5, 7, 3)}
    for name, shape in shapes.items():
        fake.serve(signature(name, {"x": ("float32", shape)}, {"y": ("float32", (None,))}), answer)
    client = fake_app(fake, {name: ModelOptions() for name in shapes}).test_client()
    photo = png(np.random.default_rng(3).integers(0, 256, (9, 8, 3), np.uint8))
    for name in shapes:
        headers = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={name}"}
        assert client.post("/invocations", data=photo, headers=headers).status_code == 200
    first, last = came
    assert (first.shape, first.flags.c_contiguous) == ((1, 3, 5, 7), True)
    np.testing.assert_array_equal(first, last.transpose(0, 3, 1, 2))


ALL_PAIRS = (
    "expected one of tfs-model-name, tfs-model-version, tfs-method, tfs-signature-name, tfs-transport, tfs-crop, "
    "tfs-outputs"
)


@pytest.mark.parametrize(
    ("sent", "name", "sentence"),
    [
        ("tfs-model=other", "tfs-model", "did you mean tfs-model-name?"),
        ("trace=1; tfs-modelname=other", "tfs-modelname", "did you mean tfs-model-name?"),
        ("TFS-Model-Name=other", "TFS-Model-Name", "did you mean tfs-model-name?"),
        ("tfs-version=1", "tfs-version", "did you mean tfs-model-version?"),
        ("tfs-zzz=1", "tfs-zzz", ALL_PAIRS),
    ],
)
def test_an_attribute_that_nobody_reads_is_refused(client: FlaskClient, sent: str, name: str, sentence: str) -> None:
    answer = client.post("/invocations", data=IMAGE, headers=attributes(sent))
    error = f"custom attribute {name}: there is no such attribute; {sentence}"
    assert (answer.status_code, answer.get_json()["error"]) == (400, error)


@each("path", ["/invocations", "/endpoints/e/invocations"])
@each(
    ("query", "name", "hint"),
    [
        ("model=other", "model", "; the header X-Amzn-SageMaker-Custom-Attributes chooses: tfs-model-name=VALUE"),
        ("tfs-model-version=2", "tfs-model-version", "; the header X-Amzn-SageMaker-Custom-Attributes chooses: "),
        ("x", "x", '"'),
    ],
)
def test_a_query_that_nobody_reads_is_refused(client: FlaskClient, path: str, query: str, name: str, hint: str) -> None:
    answer = client.post(f"{path}?{query}", data=IMAGE)
    reply = f"query parameter '{name}': this route has no query parameters{hint}"
    assert answer.status_code == (424 if path.startswith("/endpoints") else 400)
    assert reply in answer.get_data(as_text=True)


def test_a_prediction_says_which_model_answered(client: FlaskClient, transport: FakeTransport) -> None:
    transport.serve(mean_model("other", 3), channel_means)
    for sent, model in (("", "mean/1"), ("tfs-model-name=other", "other/3"), ("tfs-model-version=1", "mean/1")):
        answer = client.post("/invocations", data=IMAGE, headers=attributes(sent))
        assert (answer.status_code, answer.headers["X-Lightbox-Model"]) == (200, model)
    infer = {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 4, 4, 3], "data": [7] * 48}]}
    assert client.post("/v2/models/other/infer", json=infer).headers["X-Lightbox-Model"] == "other/3"
    by_path = client.post("/models/other/invoke?ignored=1", data=IMAGE)
    assert (by_path.status_code, by_path.headers["X-Lightbox-Model"]) == (200, "other/3")
    assert client.post("/models/none/invoke", data=IMAGE).get_json()["code"] == "model_not_found"
    for refused in (client.post("/invocations", data=b"no image"), client.get("/v2/models/mean")):
        assert "X-Lightbox-Model" not in refused.headers
