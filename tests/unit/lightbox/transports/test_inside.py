"""The transport ``inside`` where a version must not be loaded, and versions that leave."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.base.errors import DeadlineExceeded
from lightbox.base.request_context import RequestContext
from lightbox.model import engine_report
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.engines import AUTO
from lightbox.model_runtime.engines.disk_cache import stamp_of
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino.int8 import FOLDER
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.engines.setting import IN_MODEL
from lightbox.transports import inside
from lightbox.transports.inside import InsideTransport
from support.fake_transport import FakeTransport
from support.model_files import dense, write_dense_as
from support.patience import PATIENCE, poll

X = np.array([[0.5, -1.0, 2.0, 0.0]], np.float32)
THERE = np.array([[7.0, 7.0, 7.0]], np.float32)


class World:
    """A model whose versions all answer 7 in the model server, and a transport that may run it."""

    def __init__(self, folder: Path, versions_dir: Path | None = None) -> None:
        self.folder, self.answering = folder, dict[str, Sequence[int]]()
        self.server = FakeTransport()
        planned = PlannedModel(name="net", base_path=folder / "net", versions_dir=versions_dir, options=ModelOptions())
        opener = Opener(AUTO, ("serve",), b"", Hardware(1, 1, cache_folder=str(folder / "cache")))
        self.transport = InsideTransport({"net": planned}, lambda: self.answering, opener, folder, self.server)

    def add(self, version: int, engine: str = "onnxruntime") -> None:
        if not (file := self.folder / "net" / str(version) / "model.onnx").exists():
            write_dense_as(file)
        report = self.folder / engine_report.FOLDER / "net" / f"{version}.json"
        report.parent.mkdir(parents=True, exist_ok=True)
        files = stamp_of(self.folder / "net" / str(version))
        report.unlink(missing_ok=True)
        report.write_text(json.dumps({"serving_default": {"engine": engine, "reason": "named", "files": files}}))
        self.server.serve(self.signature(version), lambda _: {"y": THERE})

    def signature(self, version: int) -> SignatureSpec:
        tensors = {name: TensorSpec(name, "float32", (None, size)) for name, size in (("x", 4), ("y", 3))}
        return SignatureSpec("net", version, "serving_default", {"x": tensors["x"]}, {"y": tensors["y"]})

    def ask(self, version: int = 1, x: Array = X, seconds: float = PATIENCE) -> tuple[str | None, list[Any]]:
        context = RequestContext(seconds)
        found: Mapping[str, Array] = self.transport.predict(ModelCall(self.signature(version), {"x": x}), context)
        return context.transport, found["y"].tolist()

    def is_inside(self, version: int = 1) -> bool:
        return self.ask(version)[0] == "inside"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.add(1)
    return made


def test_the_first_calls_do_not_wait_for_the_load(world: World) -> None:
    wire, found = world.ask()
    assert (wire, found) == (None, THERE.tolist())
    assert any(world.is_inside() for _ in poll())
    np.testing.assert_allclose(world.ask()[1], dense(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("x", "why"), [(np.ones((1, 5), np.float32), "a shape"), (np.array([["a"] * 4], object), "texts")]
)
def test_what_does_not_succeed_goes_to_the_model_server(world: World, x: Array, why: str) -> None:
    assert any(world.is_inside() for _ in poll())
    before = len(world.server.calls)
    assert world.ask(x=x)[1] == THERE.tolist(), why
    assert len(world.server.calls) == before + 1


def test_a_call_without_time_left_is_not_repeated(world: World) -> None:
    assert any(world.is_inside() for _ in poll())
    before = len(world.server.calls)
    with pytest.raises(DeadlineExceeded):
        world.ask(seconds=0.0)
    assert len(world.server.calls) == before


def refused(world: World, caplog: pytest.LogCaptureFixture) -> str:
    """Return why a version stays in the model server."""
    with caplog.at_level(logging.WARNING, "lightbox"):
        world.ask()
        assert any(caplog.messages for _ in poll())
    assert not world.is_inside()
    (message,) = caplog.messages
    return message.removeprefix("version 1 of the model 'net' answers in the model server alone: ")


def test_it_takes_no_memory_that_is_not_there(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.folder / "net" / "1" / "labels.txt").write_bytes(bytes(4 << 20))  # no file of the model
    monkeypatch.setattr(inside, "available_bytes", lambda: 5 << 20)
    assert refused(world, caplog) == "it may take 12 MiB here, and 5 are free"


def test_tensorflow_is_not_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (world := World(tmp_path)).add(1, engine="tensorflow")
    assert refused(world, caplog) == "its engine is tensorflow"


def test_a_file_that_cannot_be_read_stays_there(world: World, caplog: pytest.LogCaptureFixture) -> None:
    (world.folder / "net" / "1" / "model.onnx").write_bytes(b"garbage")
    world.add(1)
    assert str(world.folder) in refused(world, caplog)


def test_files_that_the_model_server_has_not_loaded_are_not_loaded(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with (world.folder / "net" / "1" / "model.onnx").open("ab") as file:
        file.write(b"more")
    assert refused(world, caplog) == "its files are no longer those that the model server has loaded"


def test_a_load_that_ended_its_process_is_not_tried_again(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list[Path]()

    def note(opener: Opener, *given: Any) -> Any:
        left.extend(world.folder.glob("inside-net-1-*"))  # a process that ends here leaves it
        return open_as(opener, *given)

    open_as = Opener.open_as
    with monkeypatch.context() as patched:
        patched.setattr(Opener, "open_as", note)
        assert any(world.is_inside() for _ in poll())
    (mark,) = left
    assert not mark.exists()
    mark.touch()
    another = World(world.folder)
    another.server.serve(another.signature(1), lambda _: {"y": THERE})
    assert refused(another, caplog) == "a process has ended while it loaded it"


def test_what_a_load_depends_on_changes_its_stamp(world: World) -> None:
    version = world.folder / "net" / "1"
    for file in (
        version / IN_MODEL,
        version / FOLDER / "serving_default.xml",
        version.parent / "code" / "lightbox.json",
    ):
        before = stamp_of(version)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        assert stamp_of(version) != before, file
    assert stamp_of(version) == stamp_of(version)


def test_a_load_of_the_same_files_takes_over_what_is_here(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert any(world.is_inside() for _ in poll())
    before = world.transport._loaded["net", 1]
    world.add(1)  # as a model server does that is started again
    assert not world.is_inside()
    assert any(world.is_inside() for _ in poll())
    after = world.transport._loaded["net", 1]
    assert after.runner is before.runner
    assert after.load != before.load


def test_versions_come_and_leave(tmp_path: Path) -> None:
    world = World(tmp_path, versions_dir=tmp_path / "net")
    for version in (1, 2):
        world.add(version)
    world.answering = {"net": (1,)}
    assert any(world.is_inside(1) for _ in poll())
    assert not world.is_inside(2)
    world.answering = {"net": (2,)}
    assert not world.is_inside(1)
    assert not world.transport._loaded
    assert any(world.is_inside(2) for _ in poll())
    assert [*world.transport._loaded] == [("net", 2)]
