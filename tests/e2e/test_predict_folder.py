"""lightbox predict against a running stack: three protocols, an end in the middle, a full endpoint."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.fakes import png
from support.held import Door, export_held_image
from support.patience import PATIENCE, poll
from support.stack import Stack, running

PROTOCOLS = ("http", "boto3", "open-inference")


def command(folder: Path, stack: Stack, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "lightbox",
        "predict",
        str(folder),
        "--url",
        stack.url,
        f"--timeout={PATIENCE}",
        *more,
    ]


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


def pictures(folder: Path, count: int, first_held: int = 0) -> Path:
    """Write images into a new folder; the model lets those wait at the door that come from ``first_held`` on."""
    folder.mkdir()
    for index in range(count):
        (folder / f"{index:02}.png").write_bytes(png(np.full((8, 8, 3), (int(index >= first_held), index, 0))))
    return folder


def has_taken(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Tell whether a process has begun to do what a signal asks for."""
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
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_was_ended_goes_on_where_it_was(
    held: Stack, door: Door, tmp_path: Path, number: signal.Signals
) -> None:
    total = 60
    folder = pictures(tmp_path / "photos", total, first_held=24)
    out = tmp_path / "out.jsonl"
    ended = subprocess.Popen(command(folder, held, "--out", str(out)), stderr=subprocess.PIPE, text=True)
    try:
        door.wait_for()  # eight are in progress at once
        assert any(out.read_bytes().count(b"\n") >= 10 for _ in poll())
        ended.send_signal(number)
        assert any(has_taken(ended, number) for _ in poll())
        door.open()  # what is in progress ends first
        _, said = ended.communicate(timeout=PATIENCE)
    finally:
        ended.kill()
    interrupted = "lightbox predict: stopped: interrupted. Run the same command to continue.\n"
    expected = {signal.SIGKILL: (-number, ""), signal.SIGTERM: (130, interrupted)}
    assert (ended.returncode, said) == expected[number]
    lines = out.read_bytes().splitlines(keepends=True)
    assert 10 <= len(lines) < total
    assert all(line.endswith(b"}\n") and json.loads(line)["status"] == 200 for line in lines)
    said = predict(folder, held, "--out", str(out))
    assert f"{total} images: {total - len(lines)} answered" in said
    assert f"{len(lines)} had been answered before" in said
    again = out.read_bytes().splitlines(keepends=True)
    assert again[: len(lines)] == lines
    assert sorted(json.loads(line)["path"] for line in again) == sorted(str(path) for path in folder.iterdir())


@pytest.fixture(scope="module")
def narrow(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that works on one request at a time and has no queue."""
    folder = tmp_path_factory.mktemp("narrow")
    export_held_image(folder / "models" / "held_image", module_door)
    environ = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "0"}
    with running(folder / "models", folder / "run", **environ) as running_stack:
        yield running_stack


@pytest.mark.extended
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_full_endpoint_refuses_is_answered_later(
    narrow: Stack, door: Door, tmp_path: Path, protocol: str
) -> None:
    folder, logged = pictures(tmp_path / "photos", 12), len(narrow.log)
    more = ("--protocol", protocol, "--out", str(tmp_path / "out.jsonl"), "--attempts", "100")
    predicting = subprocess.Popen(command(folder, narrow, *more), stderr=subprocess.PIPE, text=True)
    try:
        door.wait_for()
        assert any("error=queue_full" in narrow.log[logged:] for _ in poll())
        door.open()
        _, said = predicting.communicate(timeout=PATIENCE)
    finally:
        predicting.kill()
    assert predicting.returncode == 0, said
    records = results(tmp_path / "out.jsonl")
    assert [record["status"] for record in records] == [200] * 12
    assert max(record["attempts"] for record in records) > 1
