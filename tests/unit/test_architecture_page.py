"""docs/architecture.md names existing files and the actual hops of a request."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path

import grpc
import numpy as np
import pytest

from lightbox.base.settings_types import TransportName
from lightbox.images.jpeg import jpeg_agrees
from lightbox.images.resize import load_native
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ModelServerAddress, ServingPlan, Transports
from lightbox.model_runtime.server.local_server import LocalServer
from lightbox.model_runtime.wire import tensor_proto
from support import commands
from support.isolation import clean_environ
from support.patience import PATIENCE
from support.stack import REPOSITORY

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
Entered = tuple[str, str]
"""File and function of a call."""
HTTP, GRPC = "The way of a request", "The way of a gRPC request"
MOST_HOPS, MOST_FILES = 14, 25
"""The most that one JPEG may cost a reader who follows it through the code, over HTTP or gRPC."""
MOST_CALLS = {HTTP: 1000, GRPC: 2500, "predict": 250}
"""The most function calls of any module that one JPEG may cost in a worker, in the gRPC front, and in the model server;
it is the number with Python 3.11, in which a comprehension is one. On a busy machine asyncio and threads wait more
often, which takes some hundred calls in the front."""
BOTH_SIDES = "container/lightbox/model_runtime/wire/"
"""The formats that the model server reads too; they are no part of the sidecar's own way."""
LOCAL_TRANSPORT = "container/lightbox/transports/local.py"
"""The page lists the files over gRPC; the embedded server's transport is one more."""


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, f"docs/architecture.md: there is no section {title!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def hops(way: str) -> list[tuple[str, str]]:
    """Return file and function of the hops in the sidecar after gunicorn has read the request."""
    found = [re.findall(r"`([^`]+)`", where) for _, where, _ in rows(section(way))[1:]]
    named = [(names[0], names[1]) for names in found if len(names) == 2 and names[0].startswith("container/lightbox")]
    return [
        (file, function) for file, function in named if not file.startswith("container/lightbox/core/gunicorn_worker")
    ]


def listed_files(way: str) -> set[str]:
    """Return the files that the page lists for a request: its own and, if it names some of them, the others of HTTP."""
    text = section(way).partition("The files of the sidecar that take part:")[2]
    but, own = (set(re.findall(r"`([^`]+\.py)`", part)) for part in text.split("\n\n")[:2])
    return (listed_files(HTTP) - but if but else set()) | own


def answer() -> bytes:
    """Return the prediction that every request gets."""
    return tensor_proto.serialize({"mean": np.full((1, 3), 99, np.float32)}, b"")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServerAddress]:
    """A server of Predict over both transports, like the embedded model server."""
    folder = tmp_path_factory.mktemp("server")
    found = ModelServerAddress(grpc_socket=folder / "grpc.sock", local_socket=folder / "local.sock")
    predict = grpc.unary_unary_rpc_method_handler(lambda _, __: answer())
    service = grpc.method_handlers_generic_handler("tensorflow.serving.PredictionService", {"Predict": predict})
    over_grpc = grpc.server(futures.ThreadPoolExecutor(1), handlers=[service])
    over_grpc.add_insecure_port(found.grpc_target)
    over_grpc.start()
    local = LocalServer(str(found.local_socket), 8, lambda _, __: answer())
    local.start()
    yield found
    local.stop(PATIENCE)
    over_grpc.stop(0).wait()


@pytest.fixture(scope="module", params=[HTTP, GRPC])
def way(request: pytest.FixtureRequest) -> str:
    """Return the section about a JPEG over HTTP, or over gRPC."""
    return str(request.param)


@pytest.fixture(scope="module", params=["local", "grpc"])
def all_calls(
    way: str, server: ModelServerAddress, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> list[Entered]:
    """Return each call for a JPEG, in a worker with default settings."""
    folder = tmp_path_factory.mktemp("calls")
    plan = ServingPlan(
        models={"mean": PlannedModel(name="mean", base_path=folder, options=ModelOptions())},
        default_model="mean",
        model_servers=(server,),
        transports=Transports(names=(TransportName(request.param),)),
    )
    plan.write(folder / "plan.json")
    return counted(folder, "grpc" if way == GRPC else "http")


@pytest.fixture(scope="module")
def calls(all_calls: list[Entered]) -> list[Entered]:
    """Return file and function of each of these calls that is the sidecar's."""
    own = [item for item in all_calls if item[0].startswith("container/")]
    return [item for item in own if not item[0].startswith(BOTH_SIDES)]


def counted(folder: Path, way: str) -> list[Entered]:
    """Return the calls of a way, in a process with the plan of a folder."""
    environ = {**clean_environ(), "PYTHONPATH": f"{REPOSITORY / 'container'}:{REPOSITORY / 'tests'}"}
    printed = commands.output([sys.executable, "-m", "support.jpeg_calls", str(folder / "plan.json"), way], env=environ)
    return [(file, function) for file, function in json.loads(printed.splitlines()[-1])]


def test_a_jpeg_takes_the_hops_of_the_page_in_their_order(way: str, calls: list[tuple[str, str]]) -> None:
    at = -1
    assert len(hops(way)) > 8
    for hop in hops(way):
        assert hop in calls[at + 1 :], f"{hop} is not entered after the hop before it"
        at = calls.index(hop, at + 1)


@pytest.mark.skipif(load_native() is None or not jpeg_agrees(), reason="images are read and resized by Pillow")
def test_a_jpeg_passes_the_files_that_the_page_lists(way: str, calls: list[tuple[str, str]]) -> None:
    assert sorted({file for file, _ in calls} - {LOCAL_TRANSPORT}) == sorted(listed_files(way))


def test_a_jpeg_passes_few_files(way: str, calls: list[tuple[str, str]]) -> None:
    assert len(rows(section(way))) - 1 <= MOST_HOPS
    assert len({file for file, _ in calls}) <= MOST_FILES


def most_frequent(calls: Sequence[Entered], count: int = 40) -> str:
    """Return the files and functions with most calls, one on a line."""
    files = Counter(file or "(C)" for file, _ in calls).most_common(count)
    functions = Counter(" ".join(item).strip() for item in calls).most_common(count)
    return "\n".join([f"{len(calls)} calls", *(f"{number:5} {name}" for name, number in files + functions)])


def test_a_jpeg_takes_few_calls(way: str, all_calls: list[Entered]) -> None:
    print(most_frequent(all_calls))
    assert len(all_calls) <= MOST_CALLS[way]


def test_a_jpeg_takes_few_calls_in_the_model_server(tmp_path: Path) -> None:
    found = counted(tmp_path, "predict")
    print(most_frequent(found))
    assert len(found) <= MOST_CALLS["predict"]


def test_every_file_that_the_page_names_exists() -> None:
    names = {name for name in re.findall(r"`([\w./]+)`", PAGE) if "/" in name and not name.startswith(("/", "."))}
    assert len(names) > 40
    assert [name for name in sorted(names) if not (REPOSITORY / name).exists()] == []


def test_every_function_beside_a_file_is_in_it() -> None:
    pairs = re.findall(r"`(container/[\w/]+\.py)` `([\w.]+)`", PAGE)
    assert len(pairs) > 10
    for file, function in pairs:
        source = (REPOSITORY / file).read_text()
        defined = re.findall(r"^ *(?:async def|def|class) (\w+)", source, re.M)
        missing = [name for name in function.split(".") if name not in defined]
        assert not missing, f"{file} has no {function}"


def test_every_setting_that_the_page_names_is_one() -> None:
    known = (REPOSITORY / "docs" / "settings.md").read_text()
    for name in re.findall(r"`((?:LIGHTBOX|SAGEMAKER)_[A-Z_]+)`", PAGE):
        assert f"`{name}`" in known, name
