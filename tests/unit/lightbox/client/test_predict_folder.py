"""lightbox predict against a server that refuses, hangs up and fails as a test says."""

from __future__ import annotations

import csv
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from lightbox.cli import main
from support.http_server import serving
from support.patience import PATIENCE

pytestmark = pytest.mark.extended

Reply = tuple[int, dict[str, str], bytes]
Answer = Callable[[bytes, int], Reply | None]
"""Takes an image and how often it has come, this time included; None hangs up."""


class Endpoint:
    """A server of /ping and /invocations; ``came`` counts how often each body was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.came: Counter[bytes] = Counter()
        self.headers: list[dict[str, str]] = []
        self.times: dict[bytes, list[float]] = {}


@contextmanager
def endpoint(answer: Answer) -> Iterator[Endpoint]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(200, {}, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                served.came[body] += 1
                served.headers.append(dict(self.headers))
                served.times.setdefault(body, []).append(time.monotonic())
                times = served.came[body]
            reply = answer(body, times)
            if reply is None:
                self.close_connection = True
            else:
                self._reply(*reply)

        def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    with serving(Handler) as url:
        served = Endpoint(url)
        yield served


def good(body: bytes, _: int = 1) -> Reply:
    return 200, {"X-Amzn-RequestId": f"id-{body.decode()}"}, json.dumps({"predictions": [body.decode()]}).encode()


def refuse(seconds: str) -> Reply:
    return 503, {"Retry-After": seconds}, b'{"error": "try again: the queue is full"}'


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for name in ("a.jpg", "b.PNG", "more/c.webp"):
        (folder / name).write_bytes(name.encode())
    (folder / "notes.txt").write_text("notes")
    (folder / ".hidden.jpg").write_bytes(b"hidden")
    return folder


def run(folder: Path, url: str, *more: str, out: str = "out.jsonl") -> int:
    own = ("--url", url, "--out", str(folder.parent / out), "--timeout", str(PATIENCE))
    return main(["predict", str(folder), *own, *more])


def results(folder: Path, out: str = "out.jsonl") -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in (folder.parent / out).read_text().splitlines()]
    found = {str(Path(line["path"]).relative_to(folder)): line for line in lines}
    assert len(found) == len(lines), "an image has two records"
    return found


def test_every_image_has_a_record(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(good) as served:
        assert run(photos, served.url, "--model", "cats") == 0
    found = results(photos)
    assert set(found) == {"a.jpg", "b.PNG", "more/c.webp"}
    record = found["more/c.webp"]
    assert record["response"] == {"predictions": ["more/c.webp"]}
    assert (record["status"], record["attempts"], record["request_id"]) == (200, 1, "id-more/c.webp")
    assert record["ms"] > 0 and record["error"] is None
    for headers in served.headers:
        assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "tfs-model-name=cats"
        assert headers["Content-Type"] == "application/x-image"
    said = capsys.readouterr().out
    assert "3 images: 3 answered" in said and "1 file of other kinds skipped" in said


def test_a_refused_image_comes_again_after_retry_after(photos: Path) -> None:
    with endpoint(lambda body, times: refuse("1") if times == 1 and body == b"a.jpg" else good(body)) as served:
        assert run(photos, served.url) == 0
    first, second = served.times[b"a.jpg"]
    assert second - first >= 1
    assert {name: record["attempts"] for name, record in results(photos).items()} == {
        "a.jpg": 2,
        "b.PNG": 1,
        "more/c.webp": 1,
    }


def test_boto3_waits_for_what_the_container_refuses(photos: Path) -> None:
    """SageMaker hands a container's 503 on as ModelError, status 424."""
    reply = {"OriginalStatusCode": 503, "OriginalMessage": "the queue is full", "Message": "503"}
    refusal = (424, {"x-amzn-ErrorType": "ModelError", "Retry-After": "1"}, json.dumps(reply).encode())
    with endpoint(lambda body, times: refusal if times == 1 else good(body)) as served:
        assert run(photos, served.url, "--protocol", "boto3") == 0
    assert all(second - first >= 1 for first, second in served.times.values())
    assert {record["attempts"] for record in results(photos).values()} == {2}
    with endpoint(lambda *_: refusal) as served:
        assert run(photos, served.url, "--protocol", "boto3", "--attempts", "1", out="again.jsonl") == 1
    assert {(found["status"], found["error"]) for found in results(photos, "again.jsonl").values()} == {
        (503, "the queue is full")
    }


def test_who_hangs_up_is_asked_again(photos: Path) -> None:
    with endpoint(lambda body, times: None if times < 3 else good(body)) as served:
        assert run(photos, served.url) == 0
    assert set(served.came.values()) == {3}
    assert {record["attempts"] for record in results(photos).values()} == {3}


def test_attempts_have_an_end(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda body, _: refuse("0") if body == b"a.jpg" else None) as served:
        assert run(photos, served.url, "--attempts", "2") == 1
    assert set(served.came.values()) == {2}
    found = results(photos)
    assert (found["a.jpg"]["status"], found["a.jpg"]["error"]) == (503, "try again: the queue is full")
    assert found["b.PNG"]["status"] is None
    assert found["b.PNG"]["error"].startswith("no answer: ")
    assert "a.jpg: try again: the queue is full" in capsys.readouterr().err


@pytest.mark.parametrize("status", [400, 404, 413, 500, 502, 504])
def test_other_failures_are_noted_and_not_sent_again(photos: Path, status: int) -> None:
    with endpoint(lambda body, _: (status, {}, b'{"error": "no image"}') if body == b"a.jpg" else good(body)) as served:
        assert run(photos, served.url) == 1
    assert set(served.came.values()) == {1}
    record = results(photos)["a.jpg"]
    assert (record["status"], record["error"], record["response"]) == (status, "no image", None)


def test_failures_are_sent_again_and_answers_are_not(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda body, _: (400, {}, b"not today") if body == b"a.jpg" else good(body)) as served:
        assert run(photos, served.url) == 1
    assert results(photos)["a.jpg"]["error"] == "not today"
    with endpoint(good) as served:
        assert run(photos, served.url) == 0
    assert set(served.came) == {b"a.jpg"}
    assert len(results(photos)) == 3
    assert "2 had been answered before" in capsys.readouterr().out
    with endpoint(good) as served:
        assert run(photos, served.url) == 0
    assert not served.came


def test_an_image_that_has_changed_is_sent_again(photos: Path) -> None:
    with endpoint(good) as served:
        assert run(photos, served.url) == 0
        (photos / "a.jpg").write_bytes(b"another a.jpg")
        assert run(photos, served.url) == 0
    assert served.came[b"another a.jpg"] == 1
    assert results(photos)["a.jpg"]["response"] == {"predictions": ["another a.jpg"]}
    assert served.came[b"b.PNG"] == 1


def test_a_line_that_was_cut_is_left_out(photos: Path) -> None:
    with endpoint(good) as served:
        assert run(photos, served.url, "--concurrency", "1") == 0
        out = photos.parent / "out.jsonl"
        out.write_bytes(out.read_bytes()[:-20])
        assert run(photos, served.url) == 0
    assert served.came == Counter({b"a.jpg": 1, b"b.PNG": 1, b"more/c.webp": 2})
    assert len(results(photos)) == 3


def test_nobody_there_any_more_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(100):
        (folder / f"{number:03}.jpg").write_bytes(b"%d" % number)
    with endpoint(lambda body, _: None if int(body) >= 20 else good(body)) as served:
        assert run(folder, served.url, "--attempts", "1", "--concurrency", "2") == 1
    # The last good one may end the first row of failures.
    assert 30 <= len(served.came) <= 45
    assert "stopped: no response for 10 images in a row" in capsys.readouterr().err
    with endpoint(good) as served:
        assert run(folder, served.url) == 0
    assert len(served.came) == 80
    assert len(results(folder)) == 100


def test_an_image_that_cannot_be_read_is_a_failure(photos: Path) -> None:
    (photos / "gone.jpg").symlink_to(photos / "nowhere")
    with endpoint(good) as served:
        assert run(photos, served.url) == 1
    record = results(photos)["gone.jpg"]
    assert (record["status"], record["attempts"]) == (None, 0)
    assert record["error"] == "the file cannot be read: No such file or directory"


def test_a_table_has_label_and_score_of_the_best_class(photos: Path) -> None:
    answers = {
        b"a.jpg": [[{"label": "cat", "class": 2, "score": 0.75}, {"label": "dog", "class": 1, "score": 0.25}]],
        b"b.PNG": [[{"class": 7, "score": 1}]],
        b"more/c.webp": [[0.25, 0.75]],
    }
    with endpoint(lambda body, _: (200, {}, json.dumps({"predictions": answers[body]}).encode())) as served:
        assert run(photos, served.url, out="out.csv") == 0
    with (photos.parent / "out.csv").open(newline="") as file:
        best = [(row["label"], row["score"]) for row in csv.DictReader(file)]
    assert best == [("cat", "0.75"), ("7", "1.0"), ("", "")]


def test_a_failure_names_its_file(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda body, _: (400, {}, b"not today") if body != b"b.PNG" else good(body)) as served:
        assert run(photos, served.url, "--concurrency", "1") == 1
    assert f"lightbox predict: 2 failed: {photos / 'a.jpg'} and others: not today" in capsys.readouterr().err


def test_csv_is_made_of_the_journal(photos: Path) -> None:
    with endpoint(lambda body, _: (400, {}, b"not today") if body == b"b.PNG" else good(body)) as served:
        assert run(photos, served.url, out="out.csv") == 1
    with (photos.parent / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [Path(row["path"]).name for row in rows] == ["a.jpg", "b.PNG", "c.webp"]
    assert json.loads(rows[0]["response"]) == {"predictions": ["a.jpg"]}
    assert [row["status"] for row in rows] == ["200", "400", "200"]
    assert rows[1]["error"] == "not today"
    with endpoint(good) as served:
        assert run(photos, served.url, out="out.csv") == 0
    assert set(served.came) == {b"b.PNG"}


def test_what_cannot_be_sent_is_a_sentence(photos: Path, closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    empty = photos.parent / "empty"
    empty.mkdir()
    (empty / "notes.txt").write_text("notes")
    nobody = f"http://127.0.0.1:{closed_port}"
    for folder, url, more, expected in (
        (empty, nobody, (), f"{empty}: holds no images; 1 file of other kinds"),
        (photos, nobody, (), f"--url {nobody}: the endpoint cannot be reached: "),
        (photos, nobody, ("--protocol", "boto3"), f"--url {nobody}: the endpoint cannot be reached: "),
        (photos, nobody, ("--protocol", "open-inference"), f"--url {nobody}: the endpoint cannot be reached: "),
        (photos, "localhost", (), "--url localhost: "),
        (photos, nobody, ("--out", "out.xml"), "--out out.xml: expected a name that ends in .jsonl, .csv, .parquet"),
        (photos, nobody, ("--out", "no/out.csv"), "--out no/out.csv: the folder no does not exist"),
    ):
        assert run(folder, url, *more) == 2
        assert capsys.readouterr().err.startswith(f"Error: {expected}")
    assert not (photos.parent / "out.xml").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "Directory 'nowhere' does not exist."),
        ([__file__], f"Directory '{__file__}' is a file."),
        (["--concurrency", "0", "."], "expected auto or a number from 1 to 64, got '0'"),
        (["--attempts", "none", "."], "Invalid value for '--attempts': 'none' is not a valid integer range."),
    ],
)
def test_a_wrong_command_line(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", *arguments]) == 2
    assert expected in capsys.readouterr().err
