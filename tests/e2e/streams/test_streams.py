"""Streams of frames through the running stack, with a WebSocket client."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from lightbox.cli import main
from support.held import Door, export_held_image
from support.models import copy_golden
from support.patience import poll
from support.stack import REPOSITORY, Stack, running
from support.streams import ROUTE, SECONDS, code_of_close, frame, opened, received


def without_id(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "request_id"}


@pytest.fixture(scope="module")
def streams(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack that takes one request at a time and has no queue."""
    folder = tmp_path_factory.mktemp("streams")
    copy_golden("image_mean", folder / "models" / "image_mean")
    export_held_image(folder / "models" / "held_image", module_door)
    environ = {
        "LIGHTBOX_STREAMS": "true",
        "LIGHTBOX_MAX_BODY_MB": "1",
        "LIGHTBOX_MAX_WAITING": "0",
        "LIGHTBOX_TRANSPORT": "grpc,rest",
        "SAGEMAKER_GUNICORN_WORKERS": "1",
        "SAGEMAKER_GUNICORN_THREADS": "1",
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "image_mean",
    }
    with running(folder / "models", folder / "run", **environ) as stack:
        yield stack


def test_frames_are_answered_in_order_as_invocations_answers_them(streams: Stack) -> None:
    with opened(streams) as stream:
        for number in range(20):  # without a wait for answers
            stream.send(frame(number))
        answers = [received(stream) for _ in range(20)]
    assert [answer["frame"] for answer in answers] == list(range(1, 21))
    for number, answer in enumerate(answers):
        assert answer["status"] == 200
        alone = streams.invoke(frame(number), Content_Type="image/png")
        assert (answer["answer"], answer["model"]) == (alone.json(), alone.headers["X-Lightbox-Model"])
        assert answer["timing"]["total"] >= answer["timing"]["predict"] > 0


def test_a_bad_frame_is_an_error_frame_and_the_stream_goes_on(streams: Stack) -> None:
    with opened(streams) as stream:
        stream.send(b"no image")
        stream.send(frame(1))
        bad, good = received(stream), received(stream)
    reply = streams.invoke(b"no image", Content_Type="application/x-image")
    assert (bad["frame"], bad["status"]) == (1, reply.status_code)
    assert without_id(bad["answer"]) == without_id(reply.json())
    assert (good["frame"], good["status"]) == (2, 200)


def test_the_query_and_text_frames_choose_model_wire_and_types(streams: Stack) -> None:
    with opened(streams, "tfs-model-name=held_image&tfs-transport=rest") as stream:
        assert stream.response is not None
        request_id = stream.response.headers["X-Amzn-RequestId"]
        stream.send(frame(0))
        assert received(stream)["answer"] == {"predictions": [0]}
        stream.send("tfs-model-name=image_mean,tfs-transport=grpc")
        stream.send(frame(3))
        assert received(stream)["answer"] == {"predictions": [[3.0, 20.0, 30.0]]}
        stream.send("accept=text/csv")
        stream.send(frame(3))
        assert received(stream)["answer"].startswith("3")
        stream.send("nothing")
        refused = received(stream)
        stream.send("tfs-model-name=none,accept=application/json")
        stream.send(frame(3))
        unknown = received(stream)
    assert (refused["frame"], refused["status"], refused["answer"]["code"]) == (None, 400, "bad_request")
    assert (unknown["frame"], unknown["status"], unknown["answer"]["code"]) == (4, 404, "model_not_found")
    (line,) = streams.lines_with(f"request_id={request_id}-1 ")
    assert "model=held_image transport=rest status=200" in line


def test_latest_drops_stale_frames_and_says_how_many(streams: Stack, door: Door) -> None:
    with opened(streams, "tfs-model-name=held_image&latest=true") as stream:
        stream.send(frame(12))
        door.wait_for(1)
        for _ in range(20):
            stream.send(frame(0))
        assert stream.ping().wait(SECONDS)  # all earlier frames have been read
        door.open()
        answers = [received(stream)]
        while answers[-1]["frame"] < 21:
            answers.append(received(stream))
        page = requests.get(f"{streams.url}/metrics", timeout=SECONDS).text
    assert [answer["frame"] for answer in answers] == [1, 21]
    assert [answer["dropped"] for answer in answers] == [19, 0]
    assert re.search(r"^lightbox_streams [1-9]", page, re.MULTILINE), page
    dropped = re.search(r"^lightbox_stream_frames_dropped_total (\S+)$", page, re.MULTILINE)
    assert dropped and float(dropped[1]) >= 19, page


def test_a_sender_that_is_too_fast_is_held_up_by_the_socket(streams: Stack, door: Door) -> None:
    large, sent = b"no image" + bytes(900_000), 0

    def send_all(stream: ClientConnection) -> None:
        nonlocal sent
        for _ in range(60):
            stream.send(large)
            sent += 1

    with opened(streams, "tfs-model-name=held_image") as stream:
        stream.send(frame(100))
        door.wait_for(1)
        sender = threading.Thread(target=send_all, args=(stream,))
        sender.start()
        seen: list[int] = []
        while not sent or seen[-3:] != [sent] * 3:
            assert sender.is_alive()
            seen.append(sent)
            sender.join(0.2)
        with pytest.raises(TimeoutError):
            stream.recv(0)  # the first is still in progress
        assert sent < 40
        door.open()
        assert received(stream)["status"] == 200
        answers = [received(stream) for _ in range(60)]
        sender.join(SECONDS)
    assert [answer["frame"] for answer in answers] == list(range(2, 62))
    assert {answer["answer"]["code"] for answer in answers} == {"image_undecodable"}


def test_a_reader_that_is_slow_holds_up_only_itself(streams: Stack) -> None:
    with opened(streams, max_queue=1) as slow, opened(streams) as other:
        for _ in range(100):
            slow.send(frame(5))
        other.send(frame(6))
        while (answer := received(other))["status"] == 503:  # one request at a time is admitted here
            other.send(frame(6))
        assert answer["answer"] == {"predictions": [[6.0, 20.0, 30.0]]}
        assert [received(slow)["frame"] for _ in range(100)] == list(range(1, 101))


def test_a_frame_above_the_limit_closes_with_1009(streams: Stack) -> None:
    with opened(streams) as stream:
        with suppress(ConnectionClosed):
            stream.send(bytes((1 << 20) + 1))
        assert code_of_close(stream) == 1009


def test_the_lines_of_the_page_run(
    streams: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (REPOSITORY / "docs" / "streams.md").read_text().partition("## Streams of frames")[2]
    (block,) = re.findall(r"```python\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    (tmp_path / "photo.jpg").write_bytes(frame(4))
    monkeypatch.chdir(tmp_path)
    there = streams.url.removeprefix("http://")
    exec(block.replace("localhost:8080", there).replace("digits", "image_mean"), {})
    assert re.fullmatch(r"1 200 [\d.]+ \[\[4.0, 20.0, 30.0\]\]\n", capsys.readouterr().out)


def test_the_sample_client_streams_a_folder(streams: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames, answers = tmp_path / "frames", tmp_path / "answers.jsonl"
    frames.mkdir()
    for number in range(5):
        (frames / f"{number}.png").write_bytes(frame(number) if number else b"no image")
    (frames / "readme.txt").write_text("no frame")
    options = [str(frames), "--url", streams.url, "--choose", "tfs-transport=rest"]
    assert main(["stream", *options, "--out", str(answers)]) == 1
    said = capsys.readouterr().out
    assert re.match(r"5 frames: 4 answered, 1 failed, 0 dropped; [\d.]+ frames/s, latency p50", said)
    assert said.endswith("; 1 file of other kinds skipped\n")
    reply = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [(each["image"], each["status"]) for each in reply] == [
        (f"{number}.png", 200 if number else 400) for number in range(5)
    ]
    (frames / "0.png").unlink()
    assert main(["stream", *options, "--latest", "--fps", "200"]) == 0
    assert " 0 failed" in capsys.readouterr().out
    assert main(["stream", str(frames), "--url", streams.url, "--choose", "latest=maybe"]) == 2
    assert "latest: expected true or false, got 'maybe'" in capsys.readouterr().err


def test_pings_are_answered(streams: Stack) -> None:
    with opened(streams) as stream:
        assert stream.ping(b"are you there").wait(SECONDS)


def test_frames_and_requests_share_one_admission(streams: Stack, door: Door) -> None:
    attributes = {"X_Amzn_SageMaker_Custom_Attributes": "tfs-model-name=held_image", "Content_Type": "image/png"}
    with opened(streams, "tfs-model-name=held_image") as stream, ThreadPoolExecutor(1) as pool:
        stream.send(frame(12))
        door.wait_for(1)
        refused = streams.invoke(frame(0), **attributes)
        assert refused.status_code == 503
        door.open()
        assert received(stream)["status"] == 200
        assert any(streams.in_progress() == 0 for _ in poll())
        door.shut()
        request = pool.submit(streams.invoke, frame(60), **attributes)
        door.wait_for(1)
        stream.send(frame(0))
        busy = received(stream)
        door.open()
        assert request.result().status_code == 200
        stream.send(frame(0))
        assert received(stream)["status"] == 200
    assert (busy["status"], without_id(busy["answer"])) == (503, without_id(refused.json()))


def test_an_opening_that_is_refused_says_why(streams: Stack) -> None:
    plain = requests.get(streams.url + ROUTE, timeout=SECONDS)
    assert (plain.status_code, plain.json()["code"]) == (426, "bad_request")
    posted = requests.post(streams.url + ROUTE, data=b"", timeout=SECONDS)
    assert (posted.status_code, posted.json()["code"]) == (405, "method_not_allowed")
    with pytest.raises(InvalidStatus) as refused, opened(streams, "latest=maybe"):
        pass
    assert refused.value.response.status_code == 400
    assert "latest: expected true or false, got 'maybe'" in refused.value.response.body.decode()
