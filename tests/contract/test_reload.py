"""Requests that change the served models, as observed on the real server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from lightbox.model_runtime.wire.messages import model_management_pb2
from lightbox.model_runtime.wire.stubs import model_service_pb2_grpc
from support.held import Door, export_held_image
from support.model_folder import CORRUPT, Folder, answer, serve
from support.model_server import ModelServer, image
from support.patience import PATIENCE

pytestmark = pytest.mark.extended


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "x", 1)


def reload(
    server: ModelServer, *models: tuple[str, str, str], seconds: float | None = PATIENCE, label: str = ""
) -> None:
    """Request these models. ``label`` becomes a label for version 1 of the first."""
    request = model_management_pb2.ReloadConfigRequest()
    for name, path, platform in models:
        request.config.model_config_list.config.add(name=name, base_path=path, model_platform=platform)
    if label:
        request.config.model_config_list.config[0].version_labels[label] = 1
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        stub.HandleReloadConfigRequest(request, timeout=seconds)


def refused(server: ModelServer, *models: tuple[str, str, str], label: str = "") -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        reload(server, *models, label=label)
    return caught.value.code().name, caught.value.details()


def test_a_refused_reload_does_not_spoil_later_ones(folder: Folder, tmp_path: Path) -> None:
    good = ("x", str(folder.path), "tensorflow")
    with serve(folder, tmp_path) as server:
        server.wait_ready()
        code, text = refused(server, good, ("y", str(folder.path), ""))
        assert code == "INVALID_ARGUMENT"
        assert text.endswith("nor ModelServerConfig::model_platform, model name is y")
        assert refused(server, good, ("y", str(folder.path), "caffe"))[1] == (
            "Model y requests unsupported platform caffe"
        )
        reload(server, good, ("y", str(folder.path), "tensorflow"))
        assert answer(server, "y") == 2.5


def test_a_reload_with_an_empty_base_path_does_not_block(folder: Folder, tmp_path: Path) -> None:
    good = ("x", str(folder.path), "tensorflow")
    later = Folder(tmp_path / "later")
    with serve(folder, tmp_path) as server:
        server.wait_ready()
        reload(server, good, ("y", str(later.path), "tensorflow"))
        error = '{"error":"Could not find any versions of model y"}'
        assert server.rest("GET", "/v1/models/y") == (404, error)
        reload(server, good, ("y", str(later.path), "tensorflow"))
        later.add(2)
        server.wait_for_states("y", (2, "AVAILABLE"))


def test_it_blocks_where_the_real_server_does_when_it_is_to(folder: Folder, tmp_path: Path) -> None:
    good = ("x", str(folder.path), "tensorflow")
    later, other = tmp_path / "later", Folder(tmp_path / "other", 1)
    with ThreadPoolExecutor(2) as pool, serve(folder, tmp_path, "--as_tensorflow_serving") as server:
        server.wait_ready()
        missing = f"Could not find base path {later} for servable y"
        reloads = [pool.submit(reload, server, good, ("y", str(later), "tensorflow"), seconds=None)]
        server.until(lambda: missing in server.stderr, PATIENCE)
        reloads.append(pool.submit(reload, server, good, ("z", str(other.path), "tensorflow"), seconds=None))
        looks = server.stderr.count(missing)
        server.until(lambda: server.stderr.count(missing) > looks + 1, PATIENCE)
        assert [call.done() for call in reloads] == [False, False]
        assert (server.states("y"), server.states("z"), answer(server)) == ([], [], 2.5)
        Folder(tmp_path / "whole", 1).path.rename(later)
        for call in reloads:
            call.result(PATIENCE)
        assert answer(server, "z") == 2.5
        server.wait_for_states("y", (1, "END"))


def test_a_reload_with_a_corrupt_model(folder: Folder, tmp_path: Path) -> None:
    good = ("x", str(folder.path), "tensorflow")
    bad = Folder(tmp_path / "bad")
    bad.add_corrupt(1)
    with serve(folder, tmp_path) as server:
        server.wait_ready()
        code, text = refused(server, good, ("bad", str(bad.path), "tensorflow"))
        error = f"{{{{{{name: bad version: 1}} due to error: OUT_OF_RANGE: {CORRUPT}}}, }}"
        assert (code, text) == ("UNKNOWN", f"1 model(s) did not become available: {error}")
        assert server.states("bad") == [(1, "END", CORRUPT)]
        reload(server, good)
        assert answer(server) == 2.5


@pytest.mark.parametrize("flag", ["", "--as_tensorflow_serving"])
def test_a_model_comes_back_with_other_files_while_a_call_in_the_old_runs(
    folder: Folder, tmp_path: Path, door: Door, flag: str
) -> None:
    """The real server mistakes the end of the old version for a failure of the new one."""
    old, new = tmp_path / "old", Folder(tmp_path / "new", 1)
    export_held_image(old, door)
    others = ("x", str(folder.path), "tensorflow")
    with serve(folder, tmp_path, *filter(None, [flag])) as server, ThreadPoolExecutor(2) as pool:
        server.wait_ready()
        reload(server, others, ("m", str(old), "tensorflow"))
        call = pool.submit(server.predict, "m", instances=[image(1)])
        door.wait_for(1)
        reload(server, others)
        server.wait_for_states("m", (1, "UNLOADING"))
        asked: Callable[..., tuple[str, str] | None] = refused if flag else reload
        again = pool.submit(asked, server, others, ("m", str(new.path), "tensorflow"), label="asked")
        server.until(lambda: server.predict("x/labels/asked", instances=[1.0])[0] == 200)
        door.open()
        text = "1 model(s) did not become available: {{{name: m version: 1}}, }"
        assert again.result(PATIENCE) == (("UNKNOWN", text) if flag else None)
        assert call.result(PATIENCE)[0] == 200
        server.wait_for_states("m", (1, "AVAILABLE"))
        assert answer(server, "m") == 2.5
