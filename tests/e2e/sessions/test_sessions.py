"""Sessions through boto3, nginx and several workers: one decode, many requests, and a complete cleanup."""

from __future__ import annotations

import json
import math
import re
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from botocore.exceptions import ClientError

from support.fakes import png
from support.models import copy_golden
from support.openapi import validator
from support.patience import PATIENCE, poll
from support.stack import Stack, running

EXPIRY = struct.Struct("<d")
"""How the file of a session begins."""
LEFT, RIGHT = (200, 0, 0), (0, 0, 100)
IMAGE = png(np.array([[LEFT] * 40 + [RIGHT] * 40] * 60, np.uint8))
JSON = "application/json"
CLOSE = json.dumps({"requestType": "CLOSE"})
ON = {"LIGHTBOX_SESSIONS": "true", "LIGHTBOX_OPENAPI": "true", "SAGEMAKER_GUNICORN_WORKERS": "2"}

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("half_plus_two", "image_mean"):
        copy_golden(name, folder / name)
    copy_golden("image_mean", folder / "digits")  # as on the page
    return folder


@pytest.fixture(scope="module")
def session_stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("sessions")
    with running(models, folder, **ON, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="image_mean") as stack:
        yield stack


@pytest.fixture(scope="module")
def client(session_stack: Stack) -> Iterator[Any]:
    with closing(session_stack.boto3()) as runtime:
        yield runtime


def ask(client: Any, session: str, body: bytes | str = b"", **wanted: Any) -> Any:
    answer = client.invoke_endpoint(EndpointName="any", SessionId=session, Body=body, **wanted)
    answer["Body"] = BytesIO(answer["Body"].read())  # an unread body keeps its connection open
    return answer


def mean(answer: Any) -> Any:
    return json.loads(answer["Body"].read())["predictions"][0]


def opened(answer: Any) -> str:
    return str(answer["NewSessionId"].split(";")[0])


def places(stack: Stack) -> Path:
    found = re.search(r"sessions: at most \d+ MiB of images in (\S+)", stack.log)
    assert found, stack.log
    return Path(found[1])


def test_all_workers_know_a_session_of_boto3(client: Any, session_stack: Stack) -> None:
    first = ask(client, "NEW_SESSION", IMAGE, ContentType="image/png")
    session = opened(first)
    whole = mean(first)
    for wire in ("grpc", "rest"):
        crops = {"0,0,40,60": LEFT, "40,0,40,60": RIGHT}
        for crop, colour in crops.items():
            answer = ask(client, session, CustomAttributes=f"tfs-crop={crop},tfs-transport={wire}")
            np.testing.assert_allclose(mean(answer), colour, atol=1e-3)
            timing = answer["ResponseMetadata"]["HTTPHeaders"]["server-timing"]
            assert "session;dur=" in timing
            assert "saved;dur=" in timing
            assert "decode;dur=" not in timing

    def again(_: int) -> Any:
        with closing(session_stack.boto3()) as runtime:
            return mean(ask(runtime, session))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(again, range(24))) == [whole] * 24
    other = ask(client, session, "1", ContentType=JSON, CustomAttributes="tfs-model-name=half_plus_two")
    assert mean(other) == 3.5
    with pytest.raises(ClientError) as streamed:
        client.invoke_endpoint_with_response_stream(EndpointName="any", SessionId="0" * 32, Body=b"")
    assert "unknown_session" in str(streamed.value.response["OriginalMessage"])
    closed = ask(client, session, CLOSE, ContentType=JSON)
    assert closed["ClosedSessionId"] == session
    with pytest.raises(ClientError) as refused:
        ask(client, session)
    reply = refused.value.response
    assert reply["OriginalStatusCode"] == 400
    assert json.loads(reply["OriginalMessage"])["code"] == "unknown_session"
    assert session_stack.lines_with("saved_ms=")
    assert session not in session_stack.log


def test_what_operators_see(client: Any, session_stack: Stack) -> None:
    session = opened(ask(client, "NEW_SESSION", json.dumps({"requestType": "NEW_SESSION"}), ContentType=JSON))
    ask(client, session, IMAGE, ContentType="application/x-image")
    page = requests.get(f"{session_stack.url}/metrics", timeout=PATIENCE).text
    assert re.search(r"^lightbox_sessions 1\.0$", page, re.MULTILINE), page
    assert re.search(rf"^lightbox_session_bytes {80 * 60 * 4}\.0$", page, re.MULTILINE), page
    assert 'lightbox_stage_seconds_count{stage="session"' in page
    folder = places(session_stack)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert session not in " ".join(path.name for path in folder.iterdir())
    ask(client, session, CLOSE, ContentType=JSON)


def test_the_openapi_document_has_what_a_session_sends(session_stack: Stack) -> None:
    document = requests.get(f"{session_stack.url}/openapi.json", timeout=PATIENCE).json()
    post = document["paths"]["/invocations"]["post"]
    names = {parameter["$ref"].rpartition("/")[2] for parameter in post["parameters"]}
    ok = post["responses"]["200"]
    (header,) = (name for name in names if "Session" in name)

    def post_and_check(session: str, body: Any, reply: str) -> str:
        validator(post["requestBody"]["content"][JSON]["schema"], parts).validate(body)
        answer = requests.post(
            f"{session_stack.url}/invocations", json=body, headers={header: session}, timeout=PATIENCE
        )
        assert answer.status_code == 200, answer.text
        (declared,) = (name for name in ok["headers"] if reply in name)
        assert declared in answer.headers
        validator(ok["content"][JSON]["schema"], parts).validate(answer.json())
        return str(answer.json()["session"])

    parts = document["components"]
    session = post_and_check("NEW_SESSION", {"requestType": "NEW_SESSION"}, "New-Session")
    assert post_and_check(session, {"requestType": "CLOSE"}, "Closed-Session") == session


def test_the_lines_of_the_page(session_stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "streams.md").read_text()
    lines = re.findall(r"^```python\n(.*?)^```$", page.partition("## Sessions")[2], re.MULTILINE | re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    for name, value in (("ACCESS_KEY_ID", "none"), ("SECRET_ACCESS_KEY", "none"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    Path("photo.jpg").write_bytes(png(np.zeros((300, 400, 3))))
    names: dict[str, Any] = {}
    exec(lines.replace("http://localhost:8080", session_stack.url), names)
    assert [mean(names[name]) for name in ("first", "part", "other")] == [[0, 0, 0]] * 3
    assert not list(places(session_stack).glob("*.session"))
    names["client"].close()


def test_expiry_and_a_stop_leave_nothing(models: Path, tmp_path: Path) -> None:
    seconds = 7200
    settings = {**ON, "SAGEMAKER_SESSIONS_EXPIRATION": str(seconds), "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "image_mean"}
    with Stack(models, tmp_path, settings) as stack, closing(stack.wait_ready().boto3()) as client:
        folder, began, began_monotonic = places(stack), time.time(), time.monotonic()
        answer = ask(client, "NEW_SESSION", IMAGE, ContentType="image/png")
        session = opened(answer)
        (kept,) = folder.glob("*.session")
        expires = datetime.fromisoformat(answer["NewSessionId"].partition("Expires=")[2]).timestamp()
        assert math.floor(began + seconds) <= expires <= time.time() + seconds
        with kept.open("r+b") as file:
            (kept_until,) = EXPIRY.unpack(file.read(EXPIRY.size))
            assert began_monotonic + seconds <= kept_until <= time.monotonic() + seconds
            file.seek(0)
            file.write(EXPIRY.pack(began_monotonic))  # expired from now on, however long the call took
        assert any(not kept.exists() for _ in poll())
        with pytest.raises(ClientError, match="expired or was closed"):
            ask(client, session)
        ask(client, "NEW_SESSION", IMAGE, ContentType="image/png")
        assert stack.stop() == 0
        assert not folder.exists()
