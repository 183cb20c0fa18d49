"""scripts/predict_folder.py against a running stack: three protocols, an end in the middle, a full endpoint."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support.fakes import png
from support.models import copy_golden
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, Stack, running

SCRIPT = REPOSITORY / "scripts" / "predict_folder.py"
PROTOCOLS = ("http", "boto3", "open-inference")


def command(folder: Path, stack: Stack, *more: str) -> list[str]:
    return [sys.executable, str(SCRIPT), str(folder), "--url", stack.url, *more]


def predict(folder: Path, stack: Stack, *more: str, code: int = 0) -> str:
    done = subprocess.run(
        command(folder, stack, *more), cwd=folder.parent, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def scores(record: dict[str, Any]) -> Any:
    response = record["response"]
    return response["outputs"][0]["data"] if "outputs" in response else response["predictions"][0]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    folder = tmp_path / "digits"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(5):
        (folder / f"{number}.png").write_bytes(png(rng.integers(0, 256, (8, 8, 3))))
    return folder


def test_every_protocol_gives_the_same(stack: Stack, digits: Path) -> None:
    found = {}
    for protocol in PROTOCOLS:
        out = digits.parent / f"{protocol}.jsonl"
        said = predict(digits, stack, "--protocol", protocol, "--model", "digits", "--out", str(out))
        assert "5 images: 5 answered" in said
        records = sorted(results(out), key=lambda record: str(record["path"]))
        assert [record["status"] for record in records] == [200] * 5
        assert len({record["request_id"] for record in records} - {""}) == 5
        found[protocol] = np.array([scores(record) for record in records])
    assert found["http"].shape == (5, 10)
    for other in PROTOCOLS[1:]:
        np.testing.assert_allclose(found[other], found["http"], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_model_cannot_take_is_noted(stack: Stack, digits: Path, protocol: str) -> None:
    (digits / "broken.jpg").write_bytes(b"no image")
    predict(digits, stack, "--protocol", protocol, "--model", "digits", "--out", "out.csv", code=1)
    (failed,) = (record for record in results(digits.parent / "out.csv.jsonl") if record["status"] != 200)
    assert Path(failed["path"]).name == "broken.jpg"
    assert (failed["status"], failed["attempts"], failed["response"]) == (400, 1, None)
    assert "image" in failed["error"]
    assert len((digits.parent / "out.csv").read_text().splitlines()) == 7


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_was_ended_goes_on_where_it_was(stack: Stack, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    total = 60
    for index in range(total):
        Image.effect_noise((640, 480), 10 + index).convert("RGB").save(folder / f"{index:02}.jpg")
    out = tmp_path / "out.jsonl"
    ended = subprocess.Popen(command(folder, stack, "--out", str(out)), stderr=subprocess.PIPE, text=True)
    try:
        assert any(out.exists() and out.read_bytes().count(b"\n") >= 10 for _ in poll(pause=0.01))
        ended.send_signal(number)
        _, said = ended.communicate(timeout=PATIENCE)
    finally:
        ended.kill()
    interrupted = "predict_folder.py: stopped: interrupted. The same command goes on from here.\n"
    expected = {signal.SIGKILL: (-number, ""), signal.SIGTERM: (130, interrupted)}
    assert (ended.returncode, said) == expected[number]
    lines = out.read_bytes().splitlines(keepends=True)
    assert 10 <= len(lines) < total
    assert all(line.endswith(b"}\n") and json.loads(line)["status"] == 200 for line in lines)
    said = predict(folder, stack, "--out", str(out))
    assert f"{total} images: {total - len(lines)} answered" in said
    assert f"{len(lines)} had been answered before" in said
    again = out.read_bytes().splitlines(keepends=True)
    assert again[: len(lines)] == lines
    assert sorted(json.loads(line)["path"] for line in again) == sorted(str(path) for path in folder.iterdir())


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that works on one request at a time and has no queue."""
    folder = tmp_path_factory.mktemp("narrow")
    copy_golden("image_mean", folder / "models" / "image_mean")
    environ = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "0"}
    with running(folder / "models", folder / "run", **environ) as running_stack:
        yield running_stack


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for index in range(12):
        Image.effect_noise((2400, 1800), 10 + index).convert("RGB").save(folder / f"{index:02}.jpg")
    return folder


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_full_endpoint_refuses_is_answered_later(
    narrow: Stack, photos: Path, tmp_path: Path, protocol: str
) -> None:
    folder = tmp_path / "photos"
    folder.symlink_to(photos, target_is_directory=True)
    predict(folder, narrow, "--protocol", protocol, "--out", "out.jsonl", "--attempts", "100")
    records = results(tmp_path / "out.jsonl")
    assert [record["status"] for record in records] == [200] * 12
    assert max(record["attempts"] for record in records) > 1
