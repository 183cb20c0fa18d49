"""lightbox predict: in process and with a running stack, from each source to each target, with interruptions."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightbox
from lightbox.cli import main
from support import commands
from support.fakes import png
from support.held import Door, export_held_image
from support.http_server import QuietHandler, serving
from support.isolation import own_environ
from support.parameters import few_of
from support.patience import PATIENCE, poll
from support.picture_sources import write_folder, write_list, write_shard, write_table
from support.s3_server import BUCKET, client
from support.stack import Stack, running

PROTOCOLS = ("http", "boto3", "open-inference")
INTERRUPTED = "lightbox predict: stopped: interrupted. The same command goes on from here.\n"


def command(source: object, *more: str) -> list[str]:
    return [sys.executable, "-m", "lightbox", "predict", str(source), *more]


def by_endpoint(stack: Stack, *more: str) -> tuple[str, ...]:
    return ("--url", stack.url, f"--timeout={PATIENCE}", *more)


def predict(source: object, *more: str, code: int = 0, environ: dict[str, str] | None = None) -> str:
    """Run the command and return its output."""
    done = commands.run(command(source, *more), env=own_environ() | (environ or {}))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, or of an unfinished file's parts."""
    files = [path] if path.is_file() else sorted(path.with_name(f"{path.name}.parts").glob("part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def scores(row: dict[str, Any]) -> Any:
    response = row["response"]
    return response["outputs"][0]["data"] if "outputs" in response else response


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    folder = tmp_path / "digits"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(5):
        (folder / f"{number}.png").write_bytes(png(rng.integers(0, 256, (8, 8, 3))))
    return folder


@pytest.mark.extended
def test_every_way_gives_the_same(stack: Stack, sample_models: Path, digits: Path) -> None:
    found = {}
    ways = {protocol: by_endpoint(stack, "--protocol", protocol, "--model", "digits") for protocol in PROTOCOLS}
    ways["model"] = ("--model", str(sample_models / "digits"))
    for name, way in ways.items():
        out = digits.parent / f"{name}.jsonl"
        assert predict(digits, "--to", str(out), *way).startswith("5 pictures in ")
        rows = sorted(results(out), key=lambda row: str(row["path"]))
        assert [(row["path"], row["error"], row["model"]) for row in rows] == [
            (f"{number}.png", None, "digits") for number in range(5)
        ]
        assert {row["version"] for row in rows} == {1 if name != "boto3" else rows[0]["version"]}
        found[name] = np.array([scores(row) for row in rows])
    assert found["http"].shape == (5, 10)
    for other in (*PROTOCOLS[1:], "model"):  # in process, `auto` may choose another engine than the endpoint's
        np.testing.assert_allclose(found[other], found["http"], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("way", ["boto3", "model"])
def test_what_the_model_cannot_take_is_noted(stack: Stack, sample_models: Path, digits: Path, way: str) -> None:
    (digits / "broken.jpg").write_bytes(b"no image")
    by = by_endpoint(stack, "--protocol", way, "--model", "digits")
    by = ("--model", str(sample_models / "digits")) if way == "model" else by
    predict(digits, "--to", f"{digits.parent}/out.csv", *by, code=1)
    rows = list(csv.DictReader(io.StringIO((digits.parent / "out.csv").read_text())))
    (failed,) = (row for row in rows if row["error"])
    assert (failed["path"], failed["response"]) == ("broken.jpg", "")
    assert failed["code"] == "image_undecodable"
    assert "image" in failed["error"]
    assert len(rows) == 6


def test_a_picture_that_is_too_large_has_an_endpoints_error(
    sample_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "in", {"a.png": png(np.zeros((8, 8, 3))), "b.png": bytes((1 << 20) + 1)})
    monkeypatch.setenv("LIGHTBOX_MAX_BODY_MB", "1")
    own = ("--model", str(sample_models / "digits"), "--to", f"{tmp_path}/out.jsonl")
    assert main(["predict", f"{tmp_path}/in", *own]) == 1
    answers = {row["path"]: (row["code"], row["error"]) for row in results(tmp_path / "out.jsonl")}
    refused = ("too_large", "the request body is larger than LIGHTBOX_MAX_BODY_MB=1 MiB")
    assert answers == {"a.png": (None, None), "b.png": refused}


def pictures(folder: Path, count: int, first_held: int = 0) -> Path:
    """Write images into a new folder. From ``first_held`` on, the model holds each image at the door."""
    folder.mkdir()
    for index in range(count):
        (folder / f"{index:02}.png").write_bytes(png(np.full((8, 8, 3), (int(index >= first_held), index, 0))))
    return folder


def has_taken(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Return whether a process has begun to act on a signal."""
    if process.poll() is not None:
        return True
    status = Path(f"/proc/{process.pid}/status").read_text()
    pending = [int(mask, 16) for mask in re.findall(r"^S(?:ig|hd)Pnd:\s+(\w+)$", status, re.MULTILINE)]
    return not any(mask >> (number - 1) & 1 for mask in pending)


@pytest.fixture(scope="module")
def held(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("held")
    export_held_image(folder / "models" / "held_image", module_door)
    with running(folder / "models", folder / "run") as running_stack:
        yield running_stack


@pytest.mark.extended
def test_a_run_that_was_ended_goes_on_where_it_was(held: Stack, door: Door, tmp_path: Path) -> None:
    total = 60
    folder = pictures(tmp_path / "photos", total, first_held=24)
    out, parts = tmp_path / "out.jsonl", tmp_path / "out.jsonl.parts"
    by = by_endpoint(held, "--to", str(out), "--part-rows", "2")
    ended = subprocess.Popen(command(folder, *by), env=own_environ(), stderr=subprocess.PIPE, text=True)
    try:
        door.wait_for()  # eight are in progress
        assert any(len(list(parts.glob("part-*"))) >= 5 for _ in poll())
        ended.terminate()
        assert any(has_taken(ended, signal.SIGTERM) for _ in poll())
        door.open()  # the requests in progress end first
        _, said = ended.communicate(timeout=PATIENCE)
    finally:
        ended.kill()
    assert (ended.returncode, said) == (130, INTERRUPTED)
    before = results(out)
    assert 10 <= len(before) < total
    assert {row["error"] for row in before} == {None}
    said = predict(folder, *by)
    assert said.startswith(f"{total - len(before)} pictures in ")
    assert f"{len(before)} had been answered before" in said
    again = results(out)
    assert again[: len(before)] == before
    assert sorted(row["path"] for row in again) == sorted(path.name for path in folder.iterdir())


class Silent(QuietHandler):
    """S3 that never answers."""

    came, over = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        self.came.set()
        self.over.wait()

    do_HEAD = do_GET


@pytest.mark.parametrize(
    ("source", "numbers"), [("s.tar", [signal.SIGTERM]), ("photos", [signal.SIGINT, signal.SIGTERM])]
)
def test_a_signal_at_the_start_and_a_second_one_end_a_run_at_once(
    sample_models: Path, tmp_path: Path, source: str, numbers: list[signal.Signals]
) -> None:
    quiet = ("--options", '{"engine": "openvino"}')  # TensorFlow, which auto may choose, writes to stderr
    by = ("--to", f"{tmp_path}/out.jsonl", "--model", str(sample_models / "digits"), *quiet)
    Silent.came.clear()
    Silent.over.clear()
    with serving(Silent) as url:
        environ = own_environ() | dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "none")
        environ |= {"AWS_ENDPOINT_URL_S3": url, "AWS_DEFAULT_REGION": "us-east-1"}
        words = command(f"s3://bucket/{source}", *by)
        ended = subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True)
        try:
            assert Silent.came.wait(PATIENCE)
            for number in numbers:
                ended.send_signal(number)
                assert any(has_taken(ended, number) for _ in poll())
            _, said = ended.communicate(timeout=PATIENCE)
        finally:
            ended.kill()
            Silent.over.set()
    assert (ended.returncode, said) == (130, INTERRUPTED)


@pytest.fixture(scope="module")
def narrow(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack that works on one request at a time and has no queue."""
    folder = tmp_path_factory.mktemp("narrow")
    export_held_image(folder / "models" / "held_image", module_door)
    environ = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "0"}
    with running(folder / "models", folder / "run", **environ) as running_stack:
        yield running_stack


@pytest.mark.extended
def test_what_a_full_endpoint_refuses_is_answered_later(narrow: Stack, door: Door, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", 12)
    by = by_endpoint(narrow, "--to", str(tmp_path / "out.jsonl"), "--attempts", "100")
    predicting = subprocess.Popen(command(folder, *by), env=own_environ(), stderr=subprocess.PIPE, text=True)
    try:
        door.wait_for()
        assert any("error=queue_full" in narrow.log for _ in poll())
        door.open()
        _, said = predicting.communicate(timeout=PATIENCE)
    finally:
        predicting.kill()
    assert predicting.returncode == 0, said
    rows = results(tmp_path / "out.jsonl")
    assert len(rows) == 12 and {row["error"] for row in rows} == {None}


PICTURES = {f"{number:02}.png": png(np.full((8, 8, 3), number * 10)) for number in range(12)}
SOURCES = ("folder", "shards", "table", "list", "s3 folder", "s3 shards", "s3 table", "s3 list")
TARGETS = ("out.jsonl", "out.csv", "out.parquet", "out.jsonl/", "out.csv/", "out.parquet/")


def write_source(root: Path, kind: str, s3: dict[str, str]) -> str:
    """Write PICTURES as a source and return its location."""
    kind, in_s3 = kind.removeprefix("s3 "), kind.startswith("s3 ")
    base = f"s3://{BUCKET}/{root.name}" if in_s3 else str(root)
    if kind == "folder":
        write_folder(root, PICTURES)
    elif kind == "shards":
        names = list(PICTURES)
        write_shard(root / "a.tar", {name: PICTURES[name] for name in names[:5]})
        write_shard(root / "b.tar", {name: PICTURES[name] for name in names[5:]})
    elif kind == "table":
        write_table(root / "t.parquet", PICTURES)
    else:
        write_folder(root, PICTURES)
        write_list(root / "l.manifest", [f"{base}/{name}" if in_s3 else name for name in PICTURES])
    if in_s3:
        for file in root.iterdir():
            client(s3).upload_file(str(file), BUCKET, f"{root.name}/{file.name}")
    return f"{base}/l.manifest" if kind == "list" else base


def read_target(to: str, s3: dict[str, str]) -> list[tuple[str, Any]]:
    """Return path and response of each row, read with standard readers."""
    if to.startswith("s3://"):
        prefix = to.removeprefix(f"s3://{BUCKET}/")
        entries = client(s3).list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
        contents = [client(s3).get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read() for entry in entries]
    else:
        contents = [file.read_bytes() for file in (sorted(Path(to).iterdir()) if to.endswith("/") else [Path(to)])]
    rows = list[tuple[str, Any]]()
    for content in contents:
        if ".parquet" in to:
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
            rows += [(row["path"], json.loads(row["response"])) for row in table]
        elif ".csv" in to:
            lines = csv.DictReader(io.StringIO(content.decode(), newline=""))
            rows += [(row["path"], json.loads(row["response"])) for row in lines]
        else:
            rows += [(row["path"], row["response"]) for row in map(json.loads, content.splitlines())]
    return rows


@pytest.mark.parametrize("kind", few_of(SOURCES, "folder", "s3 shards"))
def test_each_source_to_each_target(moto_s3: dict[str, str], sample_models: Path, tmp_path: Path, kind: str) -> None:
    model, word = sample_models / "digits", kind.replace(" ", "-")
    place = write_source(tmp_path / word, kind, moto_s3)
    expected = list(lightbox.load(model).predict_many(PICTURES.values()))
    bases = (str(tmp_path), f"s3://{BUCKET}/to-{word}")
    first = SOURCES.index(kind)
    for number in (first, first + 3):  # so that all sources together have each target in each place
        name = TARGETS[number % len(TARGETS)]
        to = f"{bases[number % 2]}/{'parts-' if name.endswith('/') else ''}{name}"
        assert main(["predict", place, "--to", to, "--model", str(model), "--part-rows", "5"]) == 0
        rows = read_target(to, moto_s3)
        assert [response for _, response in rows] == expected
        assert len({path for path, _ in rows}) == len(PICTURES)


def test_an_object_that_is_denied_has_a_row_and_the_rest_is_answered(
    moto_s3: dict[str, str], sample_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, s3 = f"s3://{BUCKET}/denied", client(moto_s3)
    for name, content in {**PICTURES, "no.png": PICTURES["00.png"], "no.tar": b""}.items():
        s3.put_object(Bucket=BUCKET, Key=f"denied/{name}", Body=content)
    denied = [f"arn:aws:s3:::{BUCKET}/denied/no.*"]
    rule = {"Effect": "Deny", "Principal": "*", "Action": ["s3:GetObject", "s3:HeadObject"], "Resource": denied}
    s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Statement": [rule]}))
    assert main(["predict", place, "--to", f"{tmp_path}/out.jsonl", "--model", str(sample_models / "digits")]) == 1
    s3.delete_bucket_policy(Bucket=BUCKET)
    rows = {row["path"]: (row["code"], row["error"]) for row in results(tmp_path / "out.jsonl")}
    assert rows.pop("no.png") == ("denied", "403: Forbidden")
    assert rows == dict.fromkeys(PICTURES, (None, None))
    said = "lightbox predict: no.tar: cannot be read after 0 pictures: 403: Forbidden\n"
    assert said in capsys.readouterr().err


@pytest.mark.extended
def test_killed_at_random_it_goes_on(sample_models: Path, tmp_path: Path) -> None:
    """Send kill -9 a random time after a few more parts are written. Repeat until a run finishes."""
    drawn, name = random.Random(0), "out.parquet"
    source = write_folder(
        tmp_path / "photos", {f"{number:04}.png": png(np.full((8, 8, 3), number % 256)) for number in range(240)}
    )
    to, by = f"{tmp_path}/{name}", ("--model", str(sample_models / "digits"), "--part-rows", "6")
    parts = tmp_path / f"{name}.parts"
    kills = 0
    while True:
        there = len(list(parts.glob("part-*")))
        running = subprocess.Popen(
            command(source, "--to", to, *by), env=own_environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in poll(pause=0.001):
            if running.poll() is not None or len(list(parts.glob("part-*"))) > there + 3:
                break
        time.sleep(drawn.random() * 0.02)
        running.kill()
        running.communicate()
        if running.returncode == 0:
            break
        assert running.returncode == -signal.SIGKILL
        kills += 1
    assert kills >= 3
    rows = read_target(to, {})
    assert sorted(path for path, _ in rows) == sorted(file.name for file in source.iterdir())


@pytest.mark.extended
def test_a_full_disk_is_a_sentence_and_the_run_goes_on_when_there_is_room(sample_models: Path, tmp_path: Path) -> None:
    digits, disk = sample_models / "digits", tmp_path / "disk"
    disk.mkdir()
    write_folder(tmp_path / "photos", {f"{number:03}.png": PICTURES["00.png"] for number in range(300)})
    predicting = shlex.join(command("photos", "--to", "disk/out.csv", "--model", str(digits), "--part-rows", "50"))
    script = f"""mount -t tmpfs -o size=64k none disk
if {predicting}; then exit 1; fi
mount -o remount,size=10m disk
{predicting}
cut -d, -f1 disk/out.csv | sort | uniq -c | awk '{{print $1}}' | sort | uniq -c"""
    namespaces = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    done = commands.run([*namespaces, "sh", "-euc", script], env=own_environ(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    full = "Error: disk/out.csv: cannot be written: No space left on device. The same command goes on from here\n"
    assert full in done.stderr
    assert "had been answered before" in done.stdout
    assert done.stdout.split()[-2:] == ["301", "1"], "a path is not there once, or the header"


@pytest.mark.extended
def test_a_broken_shard_is_a_sentence_and_the_rest_is_answered(sample_models: Path, tmp_path: Path) -> None:
    whole = write_shard(tmp_path / "in" / "a.tar", PICTURES).read_bytes()
    write_shard(tmp_path / "in" / "b.tar", PICTURES)
    (tmp_path / "in" / "a.tar").write_bytes(whole[: len(whole) // 3])
    by = ("--to", f"{tmp_path}/out.jsonl", "--model", str(sample_models / "digits"))
    said = predict(tmp_path / "in", *by, code=1)
    found = len(results(tmp_path / "out.jsonl"))
    assert len(PICTURES) < found < 2 * len(PICTURES)
    assert f"lightbox predict: a.tar: cannot be read after {found - len(PICTURES)} pictures: " in said
    (tmp_path / "in" / "a.tar").write_bytes(whole)
    predict(tmp_path / "in", *by)
    assert len({row["path"] for row in results(tmp_path / "out.jsonl")}) == 2 * len(PICTURES)


@pytest.mark.extended
def test_a_target_in_its_source_is_no_source(sample_models: Path, tmp_path: Path) -> None:
    write_folder(tmp_path / "in", PICTURES)
    (tmp_path / "link").symlink_to("in")
    by = ("--to", f"{tmp_path}/in/out.parquet", "--model", str(sample_models / "digits"))
    for _ in range(2):
        predict(tmp_path / "link", *by)
    assert [path for path, _ in read_target(f"{tmp_path}/in/out.parquet", {})] == sorted(PICTURES)
