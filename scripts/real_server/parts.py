"""The parts of the check. Each prints its subject and yields a sentence for every problem."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import requests
from PIL import Image

from benchmark.photos import photo
from lightbox.tools.harness.http_client import status_of
from lightbox.tools.harness.ports import free_ports
from lightbox.tools.harness.server_process import ServerProcess
from lightbox.tools.harness.stack import Stack, clean_environ
from real_server.program import NAME, RECORD
from real_server.timelines import TIMELINES, differences

MODELS = RECORD / "models"
NO_RETRIES = "--max_num_load_retries=0"
BODY = b'{"instances": [2.0, 4.0]}'
RESPONSES = {1: {"predictions": [3.0, 4.0]}, 2: {"predictions": [4.0, 5.0]}}
"""Responses of the versions of half_plus_two."""
TRANSPORTS = ("grpc", "rest")
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
SECONDS = 300.0
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"

Part = Callable[[Path, Path], Iterator[str]]
"""Checks a program in a folder for what it writes; yields what is wrong."""


@contextmanager
def model_server(program: Path, folder: Path, *flags: str) -> Iterator[tuple[str, str]]:
    """Run the model server; yield its gRPC and REST addresses once it responds."""
    port = free_ports(2)
    command = [str(program), f"--port={port}", f"--rest_api_port={port + 1}", *flags]
    with ServerProcess(command, clean_environ() | QUIET, folder) as server:
        server.wait_until(lambda: status_of(port + 1, "/v1/models/any") is not None)
        yield f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"


@contextmanager
def lightbox(program: Path, models: Path, folder: Path, **settings: str) -> Iterator[Stack]:
    """Run ``serve.sh serve`` over the model server until /ping is 200, then stop it.

    ``folder`` is its writable folder. Its path must be short, because a unix socket path has at most 108 bytes.
    """
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    own = {"LIGHTBOX_MODEL_SERVER": NAME, "LIGHTBOX_MODEL_DIR": str(models), "PATH": path, "TMPDIR": str(folder)}
    with Stack(own | QUIET | settings, clean_environ(), folder) as stack:
        stack.until_ready()
        yield stack


def ask(
    stack: Stack, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Send one request; return the status and the body, parsed if it is JSON."""
    response = requests.request(method, f"{stack.url}{path}", data=body, headers=headers, timeout=SECONDS)
    try:
        return response.status_code, response.json()
    except ValueError:
        return response.status_code, response.text


def listening(stack: Stack) -> set[int]:
    """Return the TCP ports on which a stack's processes listen, without those in a container."""
    root = psutil.Process(stack.process.pid)
    found = [one for process in (root, *root.children(recursive=True)) for one in process.net_connections("tcp")]
    return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}


def transcripts(program: Path, folder: Path) -> Iterator[str]:
    """The recorded REST and gRPC calls give the recorded responses."""
    config = folder / "models.config"
    config.write_text(re.sub(r'"/models/', f'"{MODELS}/', (RECORD / "models.config").read_text()))
    flags = (
        f"--model_config_file={config}",
        "--enable_grpc_healthcheck_service=true",
        "--allow_version_labels_for_unavailable_models=true",
    )
    with model_server(program, folder, *flags) as (grpc_address, rest_address):
        deadline = time.monotonic() + SECONDS
        for name in re.findall(r'\bname: *"([^"]+)"', config.read_text()):  # it responds before all versions are there
            status = f"http://{rest_address}/v1/models/{name}"
            while re.search("START|LOADING", requests.get(status, timeout=SECONDS).text):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.1)
        command = [sys.executable, str(RECORD / "replay.py"), str(RECORD)]
        command += ["--rest", rest_address, "--grpc", grpc_address, "--models", str(MODELS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    *problems, summary = done.stdout.splitlines() or [done.stderr]
    print(f"   {summary}", flush=True)
    yield from problems
    if not problems and done.returncode:
        yield summary


def timelines(program: Path, folder: Path) -> Iterator[str]:
    """Loads and unloads give the recorded responses and states in the recorded order."""
    config = folder / "models.config"
    config.write_text("model_config_list {}")
    with (
        model_server(program, folder, f"--model_config_file={config}", NO_RETRIES) as (grpc_address, _),
        grpc.insecure_channel(grpc_address) as channel,
    ):
        for number, timeline in enumerate(TIMELINES):
            found = differences(channel, timeline, folder / str(number))
            print(f"   {timeline['name']}: {'not as recorded' if found else 'as recorded'}", flush=True)
            yield from (f"{timeline['name']}: {text}" for text in found)


def one_photo(program: Path, folder: Path) -> Iterator[str]:
    """A photograph gives the same result over both transports, equal to numpy's result for its pixels."""
    for name in ("image_mean", "image_bytes"):
        shutil.copytree(MODELS / name, folder / "models" / name)
    body = photo()
    with lightbox(program, folder / "models", folder / "run", LIGHTBOX_TRANSPORT="grpc,rest") as served:
        for name in ("image_mean", "image_bytes"):
            responses = {
                transport: _invoke(served, body, f"tfs-model-name={name},tfs-transport={transport}")
                for transport in TRANSPORTS
            }
            print(f"   {name}: {str(responses['grpc'])[:100]}", flush=True)
            if responses["grpc"] != responses["rest"] or responses["grpc"][0] != 200:
                yield f"{name}: over the two transports: {responses}"
        status, response = _invoke(served, _png(7), "tfs-model-name=image_mean")
        if (status, response) != (200, {"predictions": [[7.0, 7.0, 7.0]]}):
            yield f"image_mean of a grey picture: {status} {response}"
    with lightbox(program, folder / "models", folder / "run2") as served:
        if more := listening(served) - {served.port}:
            yield f"open ports without LIGHTBOX_TRANSPORT: {sorted(more)}"
        status, response = _invoke(served, body, "tfs-model-name=image_mean,tfs-transport=rest")
        if status != 400 or "LIGHTBOX_TRANSPORT" not in str(response):
            yield f"a request for a transport that is off: {status} {response}"


def many_models(program: Path, folder: Path) -> Iterator[str]:
    """In multi-model mode every valid model loads after any sequence, and an unloaded model is gone."""
    root = folder / "models"
    for name in ("one", "two"):
        shutil.copytree(MODELS / "half_plus_two", root / name)
    shutil.copytree(MODELS / "half_plus_two" / "1", root / "corrupt" / "1")
    for variables in (root / "corrupt" / "1" / "variables").glob("*.data*"):
        variables.write_bytes(b"")  # only the server finds the fault: the graph is valid
    with lightbox(program, root, folder / "run", SAGEMAKER_MULTI_MODEL="true") as served:
        looked_at = list(_life_cycle(served))
    print(f"   {len(looked_at)} responses looked at", flush=True)
    yield from (f"{what}: {got} instead of {wanted}" for what, wanted, got in looked_at if got != wanted)


def _life_cycle(served: Stack) -> Iterator[tuple[str, Any, Any]]:
    """Yield the request, the expected response and the actual response."""

    def load(name: str, url: str) -> int:
        return ask(served, "POST", "/models", f'{{"model_name": "{name}", "url": "{url}"}}'.encode())[0]

    def unload(name: str) -> int:
        return ask(served, "DELETE", f"/models/{name}")[0]

    def invoke(name: str, version: int) -> tuple[int, Any]:
        headers = {ATTRIBUTES: f"tfs-model-version={version}"}
        status, response = ask(served, "POST", f"/models/{name}/invoke", BODY, headers)
        return status, response if status == 200 else None

    def serves(what: str, name: str) -> Iterator[tuple[str, Any, Any]]:
        for version, response in RESPONSES.items():
            yield f"invoke version {version} {what}", (200, response), invoke(name, version)

    yield "load", 200, load("m", "one")
    yield from serves("right after its load", "m")
    yield "load again", 409, load("m", "one")
    for attempt in range(1, 6):
        yield f"unload {attempt}", 200, unload("m")
        yield "invoke after the unload", (404, None), invoke("m", 1)
        yield f"load at once after unload {attempt}", 200, load("m", "one")
        yield from serves("right after it", "m")
    with ThreadPoolExecutor(8) as pool:
        yield "load two names at once", [200, 200], list(pool.map(load, ("n", "o"), ("one", "two")))
        one, *others = sorted(pool.map(load, ["p"] * 8, ["two"] * 8))
        # Where half of the threads load, 503 asks to try again.
        yield "load one name 8 times at once", (200, set()), (one, {*others} - {409, 503})
        yield "unload all at once", [200] * 4, list(pool.map(unload, ("m", "n", "o", "p")))
    yield "load a corrupt model", True, 400 <= load("q", "corrupt") < 500
    yield "load a good one of its name", 200, load("q", "two")
    yield from serves("after the corrupt one", "q")
    yield "unload what is not loaded", 404, unload("m")
    yield "open ports", [served.port], sorted(listening(served))


def _invoke(served: Stack, body: bytes, attributes: str) -> tuple[int, Any]:
    headers = {"Content-Type": "application/x-image", ATTRIBUTES: attributes}
    return ask(served, "POST", "/invocations", body, headers)


def _png(grey: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), grey, np.uint8)).save(buffer, "png")
    return buffer.getvalue()


PARTS: dict[str, Part] = {
    "transcripts": transcripts,
    "timelines": timelines,
    "photo": one_photo,
    "many-models": many_models,
}
"""By the name on the command line, in the order in which they run."""
