"""docs/open-inference-protocol.md: the page's commands are run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import requests

from lightbox.features.open_inference.grpc.messages import INFERENCE_SERVICE, methods_of
from support import commands
from support.fakes import png
from support.models import copy_golden
from support.parameters import each
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, free_port, running

pytestmark = pytest.mark.extended

PAGE = (REPOSITORY / "docs" / "open-inference-protocol.md").read_text()
SETUP, *BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
FUNCTIONS = "".join(re.findall(r"^\w+\(\) \{.*\}\n", "".join(BLOCKS), re.MULTILINE))
EXAMPLES = [pair for block in BLOCKS for pair in re.findall(r"^([^#\n].*)\n# (.*)$", block, re.MULTILINE)]
((PYTHON, PRINTED),) = re.findall(r"```python\n(.*?)# (\[.*?)\n```", PAGE, re.DOTALL)
ROW = re.compile(r"^\| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
ENDPOINTS = [row for row in ROW.findall(PAGE.partition("## ")[0]) if "`" in row[1]]
CLIENT = Path(__file__).with_name("kserve_client.py")


def paths() -> Iterator[tuple[str, str]]:
    """Yield every method and path in the page's table, with and without the optional parts."""
    for _, cell, _ in ENDPOINTS:
        named = re.findall(r"`(GET|POST) ([^`]+)`", cell)
        more = [(method, path.replace("load", "unload")) for method, path in named if "…/unload" in cell]
        for method, path in named + more:
            yield method, re.sub(r"\[.*?\]", "", path).replace("/M", "/image_mean")
            if "[" in path:
                yield method, re.sub(r"[\[\]]", "", path).replace("/M", "/image_mean").replace("/V", "/1")


@pytest.fixture(scope="module")
def protocol_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("page")
    for name in ("half_plus_two", "image_mean"):
        copy_golden(name, folder / "models" / name)
    copy_golden("image_mean", folder / "models" / "my_model")
    with running(folder / "models", folder / "run", LIGHTBOX_KSERVE_GRPC_PORT=str(free_port())) as running_stack:
        yield running_stack


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "red.png").write_bytes(png(np.full((20, 30, 3), (200, 0, 0))))
    (folder / "blue.png").write_bytes(png(np.full((9, 5, 3), (0, 0, 100))))
    return folder


def run(command: list[str], folder: Path) -> str:
    printed = commands.output(command, cwd=folder)
    return printed.strip()


@pytest.mark.parametrize(("line", "comment"), EXAMPLES)
def test_a_line_answers_what_its_comment_says(protocol_stack: Stack, files: Path, line: str, comment: str) -> None:
    script = SETUP.replace("http://localhost:8080", protocol_stack.url) + FUNCTIONS + line
    assert run(["bash", "-c", script], files).startswith(comment.strip())


def test_every_line_says_what_comes_back() -> None:
    assert len(EXAMPLES) == sum(block.count("curl ") for block in BLOCKS) > 0


def test_the_lines_for_tritonclient_print_what_they_say(protocol_stack: Stack, files: Path) -> None:
    script = PYTHON.replace("localhost:8080", f"127.0.0.1:{protocol_stack.port}")
    assert run([sys.executable, "-c", script], files) == PRINTED


@pytest.fixture(scope="module")
def kserves_output(protocol_stack: Stack, files: Path) -> list[str]:
    """Return the answers to kserve's clients, one per line.

    The clients run in their own process: their messages and tritonclient's have the same names.
    """
    grpc_address = f"127.0.0.1:{protocol_stack.environ['LIGHTBOX_KSERVE_GRPC_PORT']}"
    return run([sys.executable, str(CLIENT), protocol_stack.url, grpc_address, "red.png"], files).splitlines()


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_kserves_clients(kserves_output: list[str], protocol: str) -> None:
    assert f"{protocol}: {PRINTED}" in kserves_output


@each(("method", "path"), list(paths()))
def test_every_endpoint_of_the_table_is_there(protocol_stack: Stack, method: str, path: str) -> None:
    body = b'{"inputs":[{"name":"image","shape":[0,8,8,3],"datatype":"UINT8","data":[]}]}' if "infer" in path else b""
    answer = requests.request(method, protocol_stack.url + path, data=body, timeout=PATIENCE)
    loads = path.endswith("load")
    assert answer.status_code == (405 if loads else 200), answer.text
    assert not loads or "multi-model mode only" in answer.json()["error"]
    other = requests.request("POST" if method == "GET" else "PUT", protocol_stack.url + path, timeout=PATIENCE)
    assert (other.status_code, other.json()["code"]) == (405, "method_not_allowed")


def test_the_table_has_every_call_of_the_service() -> None:
    named = {name for _, _, cell in ENDPOINTS for name in re.findall(r"`(\w+)`", cell)} - {"Watch"}
    assert named == {method.name for method in methods_of(INFERENCE_SERVICE)}
