"""AWS's handler API through the app: a handler's arguments, its return values, and the responses to its JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from lightbox.base.errors import DeadlineExceeded, ModelFailed, Unavailable
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model

from .conftest import WithCode, WriteCode

ECHO = """
import json
def handler(data, context):
    seen = context._asdict() | {"channel": None, "body": data.read().decode()}
    return json.dumps(seen), "application/json"
"""
PAIR = """
def input_handler(data, context):
    return data.read()
def output_handler(response, context):
    import json
    return json.dumps([response.status_code, response.ok, response.json()]), context.accept_header
"""
BODY = json.dumps({"instances": np.full((1, 4, 4, 3), 7).tolist()}).encode()


def post(client: FlaskClient, body: bytes = b"", attributes: str | None = None, **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if attributes is not None:
        named["X-Amzn-SageMaker-Custom-Attributes"] = attributes
    return client.post("/invocations", data=body, headers=named)


def test_a_handler_sees_attributes_that_nobody_else_reads(with_code: WithCode) -> None:
    assert post(with_code(ECHO), b"x", "tfs-mine=1").get_json()["custom_attributes"] == "tfs-mine=1"
    answer = post(with_code(PAIR), BODY, "tfs-mine=1")
    assert (answer.status_code, answer.headers["X-Lightbox-Model"]) == (200, "mean/1")


def test_what_a_handler_asks_by_itself_has_no_version(with_code: WithCode) -> None:
    assert post(with_code(ECHO), b"x").headers["X-Lightbox-Model"] == "mean"


@pytest.mark.parametrize("attributes", ["tfs-model-version=new", "tfs-method=guess"])
def test_attributes_of_ours_are_checked_first(with_code: WithCode, attributes: str) -> None:
    assert post(with_code(ECHO), b"x", attributes).status_code == 400


def test_a_handler_is_asked_for_models_that_do_not_exist(with_code: WithCode) -> None:
    answer = post(with_code(ECHO), b"x", "tfs-model-name=none.such,tfs-model-version=3").get_json()
    assert answer["model_name"] == "none.such"
    assert answer["rest_uri"] == "http://localhost:2/v1/models/none.such/versions/3:predict"


@pytest.mark.parametrize(
    ("source", "name", "status"),
    [
        (PAIR, "none", 404),
        ("def input_handler(d, c): return 'no JSON'\ndef output_handler(r, c): ...", "none", 404),
        ("def input_handler(d, c): raise ValueError\ndef output_handler(r, c): ...", "none", 500),
        (ECHO, "../mean", 404),
        (ECHO, "..", 404),
        (ECHO, "n" * 255, 200),
        (ECHO, "n" * 256, 404),
        ("def preprocess(request): raise AssertionError", "none", 404),
    ],
)
def test_who_answers_for_models_that_do_not_exist(with_code: WithCode, source: str, name: str, status: int) -> None:
    assert post(with_code(source), BODY, f"tfs-model-name={name}").status_code == status


def test_data_is_a_stream(with_code: WithCode) -> None:
    source = """
    def handler(data, context):
        lines = [data.readline()] + list(data)
        data.seek(0)
        return b"|".join(lines) + data.read(1), "text/plain"
    """
    answer = post(with_code(source), b"a\nb\nc")
    assert answer.data == b"a\n|b\n|ca"
    assert answer.headers["Content-Type"] == "text/plain"


def test_the_pairs_json_reaches_the_model_checked(with_code: WithCode, transport: FakeTransport) -> None:
    answer = post(with_code(PAIR), BODY, Accept="application/x-mine")
    assert answer.get_data(as_text=True) == '[200, true, {"predictions": [[7.0, 7.0, 7.0]]}]'
    assert answer.headers["Content-Type"] == "application/x-mine"
    assert transport.calls[-1].inputs["image"].dtype == np.uint8
    assert "predict;dur" in answer.headers["Server-Timing"]


@pytest.mark.parametrize("result", ["text", "text.encode()", "bytearray(text.encode())", "io.StringIO(text)"])
def test_what_input_handler_may_return(with_code: WithCode, result: str) -> None:
    source = f"""
    import io
    def input_handler(data, context):
        text = data.read().decode()
        return {result}
    def output_handler(response, context):
        response.raise_for_status()
        assert response.headers["content-type"] == "application/json" and response.content.decode() == response.text
        return response.content, "application/json"
    """
    answer = post(with_code(source), BODY)
    assert answer.get_json() == {"predictions": [[7.0, 7.0, 7.0]]}


def test_the_columnar_form_is_answered_by_column(with_code: WithCode) -> None:
    body = json.dumps({"inputs": np.full((1, 4, 4, 3), 7).tolist()}).encode()
    assert post(with_code(PAIR), body).get_json() == [200, True, {"outputs": [[7.0, 7.0, 7.0]]}]


@pytest.mark.parametrize(
    ("body", "attributes", "status", "said"),
    [
        (b"{", None, 400, "the JSON cannot be read"),
        (b"{}", None, 400, "expected an object with image"),
        (json.dumps({"instances": np.full((1, 4, 4, 3), 256).tolist()}).encode(), None, 400, "256"),
        (b'{"instances": [[1]]}', None, 400, "input image: expected shape [-1,4,4,3], got one of rank 2"),
        (b'{"instances": [1], "signature_name": "none"}', None, 400, "has no signature 'none'"),
        (BODY, "tfs-model-version=9", 404, "9"),
    ],
)
def test_the_model_s_errors_are_the_answer_s_own(
    with_code: WithCode, body: bytes, attributes: str | None, status: int, said: str
) -> None:
    answer = post(with_code(PAIR), body, attributes)
    assert answer.status_code == status
    assert said in answer.get_json()["error"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("gone"), 503), (DeadlineExceeded("late"), 504), (ModelFailed("burst"), 502)],
)
@pytest.mark.parametrize("route", ["/invocations", "/endpoints/any/invocations"])
def test_output_handler_is_called_for_status_200_only(
    with_code: WithCode, transport: FakeTransport, error: Exception, status: int, route: str
) -> None:
    def fail(inputs: object) -> dict[str, Array]:
        raise error

    client = with_code(PAIR.replace("    import json", "    raise AssertionError"))
    transport.serve(mean_model(), fail)
    answer = client.post(route, data=BODY)
    reply = answer.get_json()
    if route != "/invocations":
        assert (answer.status_code, reply["OriginalStatusCode"]) == (424, status)
        reply = json.loads(reply["OriginalMessage"])
    else:
        assert answer.status_code == status
    assert reply["error"] == str(error)


def test_a_version_replaced_in_between_is_looked_up_again(with_code: WithCode, transport: FakeTransport) -> None:
    client = with_code(PAIR)
    assert post(client, BODY).get_json()[0] == 200
    transport.withdraw("mean", 1)
    transport.serve(mean_model(version=2), channel_means)
    assert post(client, BODY).get_json()[0] == 200
    assert transport.calls[-1].signature.version == 2


def test_outputs_that_the_options_leave_out_are_not_asked_for(write_code: WriteCode, transport: FakeTransport) -> None:
    code = write_code(PAIR).parent
    client = fake_app(transport, {"mean": ModelOptions(outputs=("mean",))}, code=code).test_client()
    assert post(client, BODY).get_json()[0] == 200
    assert transport.calls[-1].outputs == ("mean",)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("None", "handler returned NoneType: expected two values, the body and its content type"),
        ("b'x'", "handler returned bytes: expected two values"),
        ("('a', 'b', 'c')", "handler returned 3 values"),
        ("({'a': 1}, 'application/json')", "handler returned dict as the body: expected str or bytes"),
        ("('x', 7)", "handler returned 7 as the content type: expected text such as text/csv"),
        ("('x', 'a/b\\r\\nSet-Cookie: 1')", "as the content type"),
    ],
)
def test_a_wrong_answer_is_500_with_a_sentence(with_code: WithCode, result: str, said: str) -> None:
    answer = post(with_code(f"def handler(data, context): return {result}"))
    assert answer.status_code == 500
    assert answer.get_json()["code"] == "handler_failed"
    assert said in answer.get_json()["error"]


@pytest.mark.parametrize("result", ["('{}', None)", "[b'{}', None]"])
def test_no_content_type_is_json(with_code: WithCode, result: str) -> None:
    answer = post(with_code(f"def handler(data, context): return {result}"))
    assert (answer.status_code, answer.headers["Content-Type"], answer.data) == (200, "application/json", b"{}")


@pytest.mark.parametrize(
    ("wait", "timeout", "least", "most"),
    [("2", "50", 2, 49), ("300", "50", 50, 50), ("", "50", 50, 50), ("", "", 60, 60)],
)
def test_what_a_pair_asks_the_model_may_take_the_wait_time(
    write_code: WriteCode, transport: FakeTransport, wait: str, timeout: str, least: float, most: float
) -> None:
    environ = {"SAGEMAKER_TFS_WAIT_TIME_SECONDS": wait, "LIGHTBOX_REQUEST_TIMEOUT_SECONDS": timeout}
    client = fake_app(transport, {"mean": ModelOptions()}, environ, write_code(PAIR).parent).test_client()
    assert post(client, BODY).status_code == 200
    assert least <= transport.allowed[-1] <= most


def test_a_wrong_input_is_500_with_a_sentence(with_code: WithCode) -> None:
    answer = post(with_code("def input_handler(d, c): return {'instances': []}\ndef output_handler(r, c): ..."))
    assert answer.status_code == 500
    assert "input_handler returned dict: expected the JSON text" in answer.get_json()["error"]
