"""SageMaker Runtime simulated locally: boto3 with ``endpoint_url``, and the requests of a batch transform job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import requests

from support.fakes import png
from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import Stack, running

LINES = "application/jsonlines"
HANDLER = """
import lightbox

def handler(data, context):
    if context.custom_attributes == "refuse":
        raise lightbox.BadRequest("not today", status=422)
    return b"one\\ntwo\\n" + data.read(), context.accept_header
"""


@pytest.fixture(scope="module")
def batch_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("boto3")
    for name in ("half_plus_two", "image_mean", "two_in_two_out", "scalar_out"):
        copy_golden(name, folder / "models" / name)
    code = folder / "models" / "scalar_out" / "code"
    code.mkdir()
    (code / "inference.py").write_text(HANDLER)
    environ = {"SAGEMAKER_BATCH": "true", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two"}
    with running(folder / "models", folder / "run", **environ) as running_stack:
        yield running_stack


@pytest.fixture(scope="module")
def client(batch_stack: Stack) -> Iterator[Any]:
    with closing(batch_stack.boto3()) as runtime:
        yield runtime


def stream(client: Any, **wanted: Any) -> tuple[dict[str, Any], list[bytes]]:
    answer = client.invoke_endpoint_with_response_stream(EndpointName="any", **wanted)
    with closing(answer["Body"]) as events:
        return answer, [event["PayloadPart"]["Bytes"] for event in events]


@pytest.mark.parametrize("wire", ["grpc", "rest"])
def test_each_prediction_is_an_event(client: Any, wire: str) -> None:
    answer, parts = stream(
        client, Body=b"1\n2.5\n4\n", ContentType=LINES, Accept=LINES, CustomAttributes=f"tfs-transport={wire}"
    )
    assert parts == [b"3.5\n", b"4.25\n", b"5.0\n"]
    assert answer["ContentType"] == LINES
    assert answer["ResponseMetadata"]["HTTPHeaders"]["content-type"] == "application/vnd.amazon.eventstream"


def test_without_accept_a_stream_is_of_lines(client: Any) -> None:
    answer, parts = stream(client, Body=b'{"instances": [1, 2.5]}', ContentType="application/json")
    assert (answer["ContentType"], parts) == (LINES, [b"3.5\n", b"4.25\n"])


def test_several_outputs_are_one_object_a_line(client: Any) -> None:
    body = b'{"a": [1, 2], "k": 1}\n{"a": [3, 4], "k": 2}\n'
    _, parts = stream(client, Body=body, ContentType=LINES, CustomAttributes="tfs-model-name=two_in_two_out")
    assert [set(json.loads(part)) for part in parts] == [{"k2", "sum"}] * 2


def test_other_types_come_in_parts_too(client: Any) -> None:
    for accept, expected in (
        ("application/json", b'{"predictions":[3.5,4.25]}'),
        ("application/octet-stream", np.array([3.5, 4.25], "f4").tobytes()),
    ):
        answer, parts = stream(client, Body=b"1\n2.5\n", ContentType="text/csv", Accept=accept)
        assert (answer["ContentType"], parts) == (accept, [expected])


def test_a_handlers_lines_are_events(client: Any) -> None:
    attributes = "tfs-model-name=scalar_out"
    answer, parts = stream(client, Body=b"three", CustomAttributes=attributes, Accept="text/plain")
    assert (answer["ContentType"], parts) == ("text/plain", [b"one\n", b"two\n", b"three"])


def test_a_large_answer_arrives_whole(client: Any) -> None:
    rows = 20_000
    _, parts = stream(client, Body=b"\n".join(b"%d" % row for row in range(rows)), ContentType="text/csv")
    assert [float(part) for part in parts] == [row / 2 + 3 for row in range(rows)]


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"Body": b"{", "ContentType": "application/json"}, 400),
        ({"Body": b"1", "ContentType": "text/csv", "Accept": "text/html"}, 406),
        ({"Body": b"1", "ContentType": "text/csv", "CustomAttributes": "tfs-model-name=none"}, 404),
        ({"Body": b"\0", "ContentType": "image/png", "CustomAttributes": "tfs-model-name=image_mean"}, 400),
    ],
)
def test_what_fails_does_so_before_the_stream(client: Any, wanted: dict[str, Any], status: int) -> None:
    with pytest.raises(client.exceptions.ModelError) as caught:
        client.invoke_endpoint_with_response_stream(EndpointName="any", **wanted)
    assert caught.value.response["OriginalStatusCode"] == status
    assert json.loads(caught.value.response["OriginalMessage"])["error"]


def test_the_inference_id_is_the_requests_id(client: Any) -> None:
    answer = client.invoke_endpoint(EndpointName="any", Body=b"1", ContentType="text/csv", InferenceId="order-17")
    assert answer["ResponseMetadata"]["RequestId"] == "order-17"
    assert answer["Body"].read() == b'{"predictions":[3.5]}'
    with pytest.raises(client.exceptions.ModelError) as caught:
        client.invoke_endpoint(EndpointName="any", Body=b"x", ContentType="text/csv", InferenceId="order-18")
    assert json.loads(caught.value.response["OriginalMessage"])["request_id"] == "order-18"


def test_an_answer_has_no_custom_attributes(client: Any) -> None:
    answer = client.invoke_endpoint(EndpointName="any", Body=b"1", ContentType="text/csv", CustomAttributes="trace=1")
    assert "CustomAttributes" not in answer
    assert answer["Body"].read() == b'{"predictions":[3.5]}'


def test_a_job_may_ask_how_much_to_send(batch_stack: Stack) -> None:
    answer = requests.get(f"{batch_stack.url}/execution-parameters", timeout=PATIENCE)
    assert answer.headers["Content-Type"] == "application/json"
    wanted = answer.json()
    assert set(wanted) == {"MaxConcurrentTransforms", "BatchStrategy", "MaxPayloadInMB"}
    assert wanted["BatchStrategy"] == "MULTI_RECORD"
    assert wanted["MaxConcurrentTransforms"] * wanted["MaxPayloadInMB"] <= 100


@pytest.mark.parametrize("wire", ["grpc", "rest"])
@pytest.mark.parametrize(
    ("content_type", "records"),
    [
        (LINES, b'{"x": 1}\n{"x": 2.5}\n{"x": 4}'),
        (LINES, b"1\n2.5\n4\n"),
        ("text/csv", b"1\n2.5\n4\n"),
        ("text/csv", b"1\r\n2.5\r\n4"),
    ],
)
def test_many_records_and_single_ones_answer_the_same(
    batch_stack: Stack, wire: str, content_type: str, records: bytes
) -> None:
    """SplitType and AssembleWith are Line: with any strategy, the parts together equal the whole."""
    headers = {
        "Content_Type": content_type,
        "Accept": LINES,
        "X_Amzn_SageMaker_Custom_Attributes": f"tfs-transport={wire}",
    }
    many = batch_stack.invoke(records, **headers)
    single = [batch_stack.invoke(record, **headers) for record in records.splitlines()]
    assert many.content == b"3.5\n4.25\n5.0\n", many.text
    assert b"".join(answer.content for answer in single) == many.content


def test_an_image_a_record(batch_stack: Stack) -> None:
    image = png(np.full((30, 20, 3), (200, 0, 100)))
    attributes = "tfs-model-name=image_mean"
    answer = batch_stack.invoke(
        image, Content_Type="application/x-image", Accept=LINES, X_Amzn_SageMaker_Custom_Attributes=attributes
    )
    assert answer.text == "[200.0,0.0,100.0]\n"
