"""Run lightbox predict against a server that refuses requests, closes connections or fails, as each test sets."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from lightbox.cli import main
from lightbox.tools.client import senders
from lightbox.tools.client.concurrency import Fixed
from lightbox.tools.client.http import NoResponse
from lightbox.tools.client.retries import Retrying
from lightbox.tools.offline import endpoint as offline
from support.endpoint import endpoint, good, refuse, results, run, write_photos
from support.patience import PATIENCE

pytestmark = pytest.mark.extended


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


def test_every_image_has_a_row(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(good) as served:
        assert run(photos, served.url, "--model", "cats") == 0
    found = results(photos)
    assert set(found) == {"a.jpg", "b.PNG", "more/c.webp"}
    assert found["more/c.webp"] == {
        "path": "more/c.webp",
        "response": "more/c.webp",
        "code": None,
        "error": None,
        "model": "cats",
        "version": 3,
        "engine": None,
    }
    for headers in served.headers:
        assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "tfs-model-name=cats"
        assert headers["Content-Type"] == "application/x-image"
    said = capsys.readouterr().out
    assert said.startswith("3 pictures in ") and "1 file of other kinds skipped" in said


def test_an_endpoint_decides_which_image_is_too_large(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTBOX_MAX_BODY_MB", "1")
    large = bytes((1 << 20) + 1)
    (photos / "large.jpg").write_bytes(large)
    with endpoint(lambda body, _: good(b"large" if body == large else body)) as served:
        assert run(photos, served.url) == 0
    assert results(photos)["large.jpg"]["response"] == "large"


def test_a_refused_image_comes_again_after_retry_after(photos: Path) -> None:
    with endpoint(lambda body, times: refuse("1") if times == 1 and body == b"a.jpg" else good(body)) as served:
        assert run(photos, served.url) == 0
    first, second = served.times[b"a.jpg"]
    assert second - first >= 1
    assert served.came == Counter({b"a.jpg": 2, b"b.PNG": 1, b"more/c.webp": 1})
    assert {row["error"] for row in results(photos).values()} == {None}


def test_boto3_waits_for_what_the_container_refuses(photos: Path) -> None:
    """SageMaker returns a container's 503 as ModelError with status 424."""
    reply = {"OriginalStatusCode": 503, "OriginalMessage": "the queue is full", "Message": "503"}
    refusal = (424, {"x-amzn-ErrorType": "ModelError", "Retry-After": "1"}, json.dumps(reply).encode())
    with endpoint(lambda body, times: refusal if times == 1 else good(body)) as served:
        assert run(photos, served.url, "--protocol", "boto3") == 0
    assert all(second - first >= 1 for first, second in served.times.values())
    assert {row["error"] for row in results(photos).values()} == {None}
    with endpoint(lambda *_: refusal) as served:
        assert run(photos, served.url, "--protocol", "boto3", "--attempts", "1", out="again.jsonl") == 1
    rows = results(photos, "again.jsonl").values()
    assert {(row["code"], row["error"]) for row in rows} == {("status_503", "the queue is full")}


def test_nobody_there_any_more_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(100):
        (folder / f"{number:03}.jpg").write_bytes(b"%d" % number)
    with endpoint(lambda body, _: None if int(body) >= 20 else good(body)) as served:
        assert run(folder, served.url, "--attempts", "1", "--concurrency", "2") == 1
    # The last successful response may interrupt the first series of failures.
    assert 30 <= len(served.came) <= 45
    assert "stopped: no response for 10 pictures in a row" in capsys.readouterr().err
    # Failures before the last success become rows; the next run sends the others again.
    rows = len(results(folder))
    assert 20 <= rows < 30
    with endpoint(good) as served:
        assert run(folder, served.url) == 0
    assert len(served.came) == 100 - rows
    assert len(results(folder)) == 100


def test_a_response_in_progress_is_kept_when_the_endpoint_is_gone() -> None:
    stopping = threading.Event()

    class LateForOne:
        def check(self) -> None: ...

        def send(self, image: bytes) -> senders.Response:
            if image != b"late":
                raise NoResponse("closed")
            assert stopping.wait(PATIENCE)
            return senders.Response(200, b'{"predictions": [1]}')

    pictures = [("late", b"late"), *((f"{number}", b"") for number in range(100))]
    answers = offline.Endpoint("cats", Retrying(LateForOne(), 1, stopping), Fixed(2)).responses(pictures)
    assert next(answers)[0] == "late"
    with pytest.raises(offline.EndpointGone, match="no response for 10 pictures in a row"):
        next(answers)


def test_an_image_that_cannot_be_read_has_an_error(photos: Path) -> None:
    (photos / "gone.jpg").symlink_to(photos / "nowhere")
    with endpoint(good) as served:
        assert run(photos, served.url) == 1
    row = results(photos)["gone.jpg"]
    assert (row["code"], row["error"]) == ("unreadable", "No such file or directory")


def test_an_error_names_a_picture(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda body, _: (400, {}, b"not today") if body != b"b.PNG" else good(body)) as served:
        assert run(photos, served.url, "--concurrency", "1") == 1
    assert "lightbox predict: 2 with an error: a.jpg and others: not today" in capsys.readouterr().err


def test_what_cannot_be_sent_is_a_sentence(photos: Path, closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    empty = photos.parent / "empty"
    empty.mkdir()
    (empty / "notes.txt").write_text("notes")
    nobody = f"http://127.0.0.1:{closed_port}"
    with endpoint(good) as served:
        for folder, url, more, expected in (
            (empty, served.url, (), f"{empty}: holds no pictures; 1 file of other kinds"),
            (photos, nobody, (), f"--url {nobody}: the endpoint cannot be reached: "),
            (photos, nobody, ("--protocol", "boto3"), f"--url {nobody}: the endpoint cannot be reached: "),
            (photos, nobody, ("--protocol", "open-inference"), f"--url {nobody}: the endpoint cannot be reached: "),
            (photos, "localhost", (), "--url localhost: "),
            (photos, served.url, ("--to", "out.xml"), "out.xml: expected a name that ends in .jsonl, .csv, .parquet"),
            (photos, served.url, ("--to", "no/out.csv"), "no/out.csv: the folder no does not exist"),
        ):
            assert run(folder, url, *more) == 2
            assert capsys.readouterr().err.startswith(f"Error: {expected}")
    assert not (photos.parent / "out.xml").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["photos"], "Missing option '--to'"),
        (
            ["photos", "--to", "a.csv"],
            "expected --model with a model's folder, or --url or --endpoint-name of an endpoint; got none of them",
        ),
        (["photos", "--to", "a.csv", "--model", "m", "--options", "["], "--options: expected a JSON object"),
        (["photos", "--to", "a.csv", "--model", "m", "--options", "[1]"], "--options: expected a JSON object, got [1]"),
        (["photos", "--to", "a.csv", "--model", "nowhere"], "nowhere does not exist"),
        (["--concurrency", "0", "."], "expected auto or a number from 1 to 64, got '0'"),
        (["--attempts", "none", "."], "Invalid value for '--attempts': 'none' is not a valid integer range."),
    ],
)
def test_a_wrong_command_line(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", *arguments]) == 2
    assert expected in capsys.readouterr().err
