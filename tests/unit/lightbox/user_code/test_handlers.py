"""Lightbox's API through the app: preprocess, postprocess, either alone, and the request that they receive."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app, png, signature

from .conftest import WithCode, WriteCode

IMAGE = png(np.full((4, 4, 3), (10, 20, 30)))


def turned_jpeg() -> bytes:
    """A JPEG of 6x2 pixels that its EXIF orientation turns to 2x6."""
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (6, 2)).save(buffer, "jpeg", exif=exif)
    return buffer.getvalue()


def test_preprocess_alone(with_code: WithCode, transport: FakeTransport) -> None:
    client = with_code("""
    import json, numpy as np
    def preprocess(request):
        assert request.content_type == "application/x-mine; v=1" and request.accept == "*/*"
        return {"image": np.full((2, 4, 4, 3), json.loads(request.body)["value"])}
    """)
    headers = {"Content-Type": "application/x-mine; v=1", "Accept": "*/*"}
    answer = client.post("/invocations", data=b'{"value": 9}', headers=headers)
    assert answer.get_json() == {"predictions": [[9, 9, 9], [9, 9, 9]]}
    assert transport.calls[-1].inputs["image"].dtype == np.uint8


def test_postprocess_alone(with_code: WithCode) -> None:
    client = with_code("""
    import numpy as np
    def postprocess(outputs, request):
        best = np.argsort(-outputs["mean"][0])[:request.options.top_k]
        return {
            "best": [[request.label(index), outputs["mean"][0][index]] for index in best],
            "unknown": request.label(99),
            "size": request.image_sizes[0],
            "model": [request.model_name, request.model_version],
            "attributes": request.custom_attributes,
        }
    """)
    sent = "mine=1,tfs-model-version=1"
    answer = client.post("/invocations", data=IMAGE, headers={"X-Amzn-SageMaker-Custom-Attributes": sent})
    assert answer.get_json() == {
        "best": [["blue", 30.0], ["green", 20.0]],
        "unknown": "99",
        "size": [4, 4],
        "model": ["mean", 1],
        "attributes": {"mine": "1", "tfs-model-version": "1"},
    }
    assert client.post("/invocations", headers={"X-Amzn-SageMaker-Custom-Attributes": "tfs-x=2"}).status_code == 400
    assert "preprocess;dur" in answer.headers["Server-Timing"]


def test_images_are_upright_rgb_in_their_own_size(with_code: WithCode) -> None:
    client = with_code("""
    import numpy as np
    def preprocess(request):
        return {"image": np.asarray(request.images[0].resize((4, 4)))[None]}
    def postprocess(outputs, request):
        assert request.images[0] is request.images[0]
        return [request.images[0].mode, request.images[0].size, request.image_sizes]
    """)
    answer = client.post("/invocations", data=turned_jpeg(), content_type="image/jpeg")
    assert answer.get_json() == ["RGB", [2, 6], [[2, 6]]]
    assert client.post("/invocations", data=b"no image", content_type="image/jpeg").status_code == 400


def test_images_of_a_form(with_code: WithCode) -> None:
    form = {name: (io.BytesIO(png(np.zeros((4, width, 3)))), f"{name}.png") for name, width in (("a", 3), ("b", 5))}
    client = with_code("""
    import numpy as np
    def preprocess(request):
        return {"image": np.stack([image.resize((4, 4)) for image in request.images])}
    """)
    assert len(client.post("/invocations", data=form).get_json()["predictions"]) == 2
    form = {name: (io.BytesIO(png(np.zeros((4, width, 3)))), f"{name}.png") for name, width in (("a", 3), ("b", 5))}
    client = with_code("def postprocess(outputs, request): return request.image_sizes")
    assert client.post("/invocations", data=form).get_json() == [[3, 4], [5, 4]]


@pytest.mark.parametrize("body", [turned_jpeg(), png(np.zeros((6, 2)))])
def test_sizes_without_decoding(with_code: WithCode, body: bytes) -> None:
    client = with_code("def postprocess(outputs, request): return request.image_sizes")
    assert client.post("/invocations", data=body).get_json() == [[2, 6]]


@pytest.mark.parametrize(
    ("result", "body", "content_type"),
    [
        ("{'a': outputs['mean'], 'n': np.float32(1.5)}", b'{"a":[[10.0,20.0,30.0]],"n":1.5}', "application/json"),
        ("outputs['mean'].astype(int)", b"[[10,20,30]]", "application/json"),
        ("'text'", b'"text"', "application/json"),
        ("0", b"0", "application/json"),
        ("('cat', 'dog')", b'["cat","dog"]', "application/json"),
        ("[float('nan'), np.float64('inf')]", b"[NaN, Infinity]", "application/json"),
        ("{1: 2 ** 70}", b'{"1": 1180591620717411303424}', "application/json"),
        ("[b'cat']", b'["cat"]', "application/json"),
        ("b'raw'", b"raw", "application/octet-stream"),
        ("(b'raw', 'image/png')", b"raw", "image/png"),
        ("('a,b', 'text/csv; header=absent')", b"a,b", "text/csv; header=absent"),
        ("({'a': 1}, 'application/vnd.mine+json')", b'{"a":1}', "application/vnd.mine+json"),
    ],
)
def test_what_postprocess_may_return(with_code: WithCode, result: str, body: bytes, content_type: str) -> None:
    client = with_code(f"import numpy as np\ndef postprocess(outputs, request): return {result}")
    # The user's code runs before Accept is checked.
    answer = client.post("/invocations", data=IMAGE, headers={"Accept": "text/html"})
    assert (answer.data, answer.headers["Content-Type"], answer.status_code) == (body, content_type, 200)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("None", "postprocess returned None"),
        ("object()", "postprocess returned object that JSON cannot hold"),
        ("{'a': {1, 2}}", "postprocess returned dict that JSON cannot hold: set"),
        ("[b'\\xff']", "postprocess returned list that JSON cannot hold"),
    ],
)
def test_what_postprocess_may_not_return(with_code: WithCode, result: str, said: str) -> None:
    answer = with_code(f"def postprocess(o, r): return {result}").post("/invocations", data=IMAGE)
    assert answer.status_code == 500
    assert said in answer.get_json()["error"]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("None", "preprocess returned NoneType: expected a dict of arrays by input name, image (uint8 [-1,4,4,3])"),
        ("{}", "got none"),
        ("{'img': 1}", "takes image (uint8 [-1,4,4,3]); got img"),
        ("{'image': np.zeros((4, 4, 3), 'u1')}", "expected shape [-1,4,4,3], got [4,4,3]"),
        ("{'image': np.zeros((1, 4, 4, 3))}", "expected dtype uint8, got float64"),
        ("{'image': np.full((1, 4, 4, 3), 256)}", "uint8 holds 0 to 255, got 256 to 256"),
        ("{'image': [[1], [1, 2]]}", "it cannot be converted to an array"),
        ("{'image': 'x'}", "expected dtype uint8"),
    ],
)
def test_what_preprocess_may_not_return(with_code: WithCode, transport: FakeTransport, result: str, said: str) -> None:
    answer = with_code(f"import numpy as np\ndef preprocess(r): return {result}").post("/invocations", data=IMAGE)
    assert answer.status_code == 500
    assert said in answer.get_json()["error"]
    assert not transport.calls


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", [0.1, 1], np.array([0.1, 1], "f4")),
        ("float16", [True, False], np.array([1, 0], "f2")),
        ("int32", np.array([1, 2], "i8"), np.array([1, 2], "i4")),
        ("bool", [True, False], np.array([True, False])),
        ("string", ["é", b"\0\0"], np.array(["é".encode(), b"\0\0"], object)),
        ("string", np.array(["a", "bc"]), np.array([b"a", b"bc"], object)),
    ],
)
def test_arrays_get_the_signatures_dtype(write_code: WriteCode, dtype: str, value: object, expected: object) -> None:
    transport = FakeTransport()
    spec = signature("net", {"x": (dtype, (None,))}, {"n": ("int64", (None,))})
    transport.serve(spec, lambda inputs: {"n": np.zeros(2, int)})
    code = write_code("import inference_values\ndef preprocess(r): return {'x': inference_values.value}")
    (code.parent / "inference_values.py").write_text(f"import numpy as np\nfrom numpy import array\nvalue = {value!r}")
    answer = fake_app(transport, {"net": ModelOptions()}, code=code.parent).test_client().post("/invocations")
    assert answer.status_code == 200, answer.text
    got = transport.calls[-1].inputs["x"]
    assert got.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(got, np.asarray(expected))


def test_a_version_replaced_in_between_is_asked_with_the_same_request(
    with_code: WithCode, transport: FakeTransport
) -> None:
    client = with_code("def postprocess(outputs, request): return request.model_version")
    assert client.post("/invocations", data=IMAGE).get_json() == 1
    spec = transport.signature("mean", 1, "serving_default", None)  # type: ignore[arg-type]
    transport.withdraw("mean", 1)
    transport.serve(
        signature("mean", {"image": ("uint8", spec.inputs["image"].shape)}, {"mean": ("float32", (None, 3))}, 2),
        lambda inputs: {"mean": np.zeros((1, 3), "f4")},
    )
    assert json.loads(client.post("/invocations", data=IMAGE).data) == 2
