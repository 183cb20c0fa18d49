"""Changes to model folders at run time, as observed on the real server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.model_folder import CORRUPT, Folder, answer, serve
from support.model_server import MODELS, ModelServer, config_text

pytestmark = pytest.mark.extended


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "x", 1)


def test_versions_come_and_go(folder: Folder, tmp_path: Path) -> None:
    with serve(folder, tmp_path) as server:
        server.wait_ready()
        assert server.states("x") == [(1, "AVAILABLE", "")]
        assert answer(server) == 2.5
        folder.add(2)
        server.wait_for_states("x", (2, "AVAILABLE"), (1, "END"))
        assert answer(server) == 3.5
        gone = "Servable not found for request: Specific(x, 1)"
        assert server.predict("x/versions/1", instances=[1.0]) == (404, {"error": gone})
        folder.remove(2)
        server.wait_for_states("x", (2, "END"), (1, "AVAILABLE"))
        assert answer(server) == 2.5
        folder.add(2)
        server.wait_for_states("x", (2, "AVAILABLE"), (1, "END"))


def test_a_corrupt_version_leaves_the_old_one_serving(folder: Folder, tmp_path: Path) -> None:
    with serve(folder, tmp_path) as server:
        server.wait_ready()
        folder.add_corrupt(5)
        server.wait_for_states("x", (5, "END"), (1, "AVAILABLE"))
        assert server.states("x")[0] == (5, "END", CORRUPT)
        assert answer(server) == 2.5
        assert server.predict("x/versions/5", instances=[1.0])[0] == 404
        folder.add(6)
        server.wait_for_states("x", (6, "AVAILABLE"), (5, "END"), (1, "END"))
        folder.remove(5)
        (folder.path / "7").mkdir()
        (folder.path / "8").write_text("a plain file")
        server.wait_for_states("x", (8, "END"), (6, "AVAILABLE"), (5, "END"), (1, "END"))
        reserve = "Error while attempting to reserve resources to load servable {name: x version: 8}"
        assert server.states("x")[0][2] == f"{reserve}: {folder.path}/8; Not a directory"
        (folder.path / "8").unlink()
        server.until(lambda: (7, "END") in [state[:2] for state in server.states("x")])
        assert (
            "does not appear to contain a SavedModel bundle"
            in {version: error for version, _, error in server.states("x")}[7]
        )
        assert answer(server) == 3.5


def test_the_base_path_goes_away(folder: Folder, tmp_path: Path) -> None:
    with serve(folder, tmp_path) as server:
        server.wait_ready()
        shutil.rmtree(folder.path)
        text = f"Could not find base path {folder.path} for servable x with error NOT_FOUND: {folder.path} not found"
        server.until(lambda: text in server.stderr)
        assert server.states("x") == [(1, "AVAILABLE", "")]
        assert answer(server) == 2.5


def test_nothing_listens_until_there_is_a_version(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "x")
    folder.path.rmdir()
    with serve(folder, tmp_path) as server:
        server.until(lambda: server.stderr.count("Could not find base path") >= 2)
        folder.path.mkdir()
        server.until(lambda: server.stderr.count("No versions of servable x found") >= 2)
        with pytest.raises(OSError, match="refused"):
            server.rest("GET", "/v1/models/x")
        folder.add(1)
        server.wait_ready()
        assert answer(server) == 2.5


def test_a_corrupt_only_version_ends_the_server(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "x")
    folder.add_corrupt(1)
    with serve(folder, tmp_path) as server:
        assert server.wait_end() == 255
        error = f"{{{{{{name: x version: 1}} due to error: OUT_OF_RANGE: {CORRUPT}}}, }}"
        text = f"Failed to start server. Error: UNKNOWN: 1 servable(s) did not become available: {error}"
        assert server.stdout.splitlines()[-1] == text


def test_tags_that_the_model_has_not(folder: Folder, tmp_path: Path) -> None:
    with serve(folder, tmp_path, "--saved_model_tags=foo") as server:
        assert server.wait_end() == 255
        error = "due to error: NOT_FOUND: Could not find meta graph def matching supplied tags"
        assert error in server.stdout.splitlines()[-1]


def test_a_load_is_tried_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "x")
    folder.add_corrupt(1)
    flags = ["--max_num_load_retries=1000000", "--load_retry_interval_micros=50000"]
    with serve(folder, tmp_path, *flags) as server:
        server.until(lambda: server.stderr.count("Loading servable: {name: x version: 1} failed") >= 2)
        good = MODELS / "half_plus_two" / "1"
        shutil.copytree(good / "variables", folder.path / "1" / "variables")  # first: the graph loads without them
        shutil.copy(good / "saved_model.pb", tmp_path / "saved_model.pb")
        (tmp_path / "saved_model.pb").rename(folder.path / "1" / "saved_model.pb")
        server.wait_ready()
        assert answer(server) == 2.5


def test_the_configuration_file_is_read_again(folder: Folder, tmp_path: Path) -> None:
    entry = 'name: "{}" base_path: "{}" model_platform: "tensorflow"'
    both = [entry.format(name, folder.path) for name in ("x", "y")]
    path = tmp_path / "models.config"
    path.write_text(config_text(both[0]))
    flags = [f"--model_config_file={path}", "--model_config_file_poll_wait_seconds=1"]
    with ModelServer(tmp_path / "server", *flags) as server:
        server.wait_ready()
        assert server.rest("GET", "/v1/models/y")[0] == 404
        path.write_text(config_text(*both))
        server.wait_for_states("y", (1, "AVAILABLE"))
        path.write_text("model_config_list {")
        error = f"Failed to read ModelServerConfig file: Invalid protobuf file: '{path}'"
        server.until(lambda: error in server.stderr)
        assert answer(server, "x") == answer(server, "y") == 2.5
        path.write_text(config_text(both[0]))
        server.wait_for_states("y", (1, "END"))
        assert answer(server, "x") == 2.5
