"""The context that a handler of AWS's API receives."""

from __future__ import annotations

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app

from .conftest import WithCode, WriteCode
from .test_aws import ECHO, post


def test_the_context_of_a_bare_request(with_code: WithCode) -> None:
    assert post(with_code(ECHO), b"hello").get_json() == {
        "model_name": "mean",
        "model_version": None,
        "method": None,
        "rest_uri": "http://localhost:2/v1/models/mean:predict",
        "grpc_port": "1",
        "channel": None,
        "custom_attributes": None,
        "request_content_type": "application/json",
        "accept_header": "application/json",
        "content_length": 5,
        "timeout": 60,
        "body": "hello",
    }


def test_a_handler_sees_raw_media_types_and_attributes(with_code: WithCode) -> None:
    attributes = "tfs-model-version=1, mine=a=b;x,tfs-method=regress"
    answer = post(
        with_code(ECHO), b"x", attributes, Content_Type="video/mp4; codec=odd", Accept="text/html;q=0.3, x/y"
    ).get_json()
    assert answer["request_content_type"] == "video/mp4; codec=odd"
    assert answer["accept_header"] == "text/html;q=0.3, x/y"
    assert answer["custom_attributes"] == attributes
    assert answer["rest_uri"].endswith("/v1/models/mean/versions/1:regress")
    assert (answer["model_version"], answer["method"]) == ("1", "regress")


def test_the_timeout_is_the_last_of_eleven_fields(write_code: WriteCode, transport: FakeTransport) -> None:
    code = write_code("""
    import json
    def handler(data, context):
        *ten, timeout = context
        return json.dumps([len(ten), timeout, context.timeout]), None
    """).parent
    environ = {"SAGEMAKER_TFS_WAIT_TIME_SECONDS": "7"}
    client = fake_app(transport, {"mean": ModelOptions()}, environ, code).test_client()
    assert post(client).get_json() == [10, 7, 7]
