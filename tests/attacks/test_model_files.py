"""Files of a model that take minutes or gigabytes to read: each is refused after a bounded number of steps, and at the
deadline of whoever reads it."""

from __future__ import annotations

import io
import os
import struct
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from lightbox.base.errors import DeadlineExceeded
from lightbox.base.request_context import RequestContext
from lightbox.model import options
from lightbox.model.options import ModelOptionsError, load_options
from lightbox.model_files import tf_graph as graph
from lightbox.model_files import variables
from lightbox.model_files.checks import NOTES, signatures_of, version_problem
from lightbox.model_files.layout import WEIGHTS_NOTE, weights_note
from lightbox.model_runtime.access import open_file, read_file
from lightbox.model_runtime.deadline import deadline
from lightbox.model_runtime.formats import looks, openvino_ir
from lightbox.model_runtime.wire.protobuf import delimited
from lightbox.serving.settings_loading import load_settings
from support.fakes import png
from support.model_files import write_dense_as
from support.models import export_constant
from support.parameters import each
from support.patience import PATIENCE
from support.stack import Stack, running

MB = 1 << 20
IMAGE = png(np.zeros((8, 8, 3), np.uint8))
TOO_LONG = "its tables are longer than those of any model"


def onnx(graph: bytes) -> tuple[str, bytes]:
    return "model.onnx", delimited(7, graph)


def litert(count: int) -> tuple[str, bytes]:
    """Return a file whose list of buffers names one table again and again."""
    table = 28 + 8 + 4 + 4 * count + 4
    places = 40 + 4 * np.arange(count)
    head = struct.pack("<I4s12HiII", 28, b"TFL3", 20, 8, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 20, 4, count)[:28]
    head += struct.pack("<iII", 20, 4, count)
    return "model.tflite", head + (table - places).astype("<u4").tobytes() + struct.pack("<HHi", 4, 4, 4)


def ir(layers: bytes, before: bytes = b"") -> tuple[str, bytes]:
    return "model.xml", before + b'<net version="11"><layers>' + layers + b"</layers></net>"


def saved_model(meta_graph: bytes) -> tuple[str, bytes]:
    return "saved_model.pb", delimited(2, delimited(1, delimited(4, b"serve")) + meta_graph)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that small files are beyond them."""
    monkeypatch.setattr(looks, "MOST_LOOKS", 20_000)
    monkeypatch.setattr(openvino_ir, "MOST_PARTS", 1000)
    monkeypatch.setattr(graph, "MOST_FIELDS", 1000)
    monkeypatch.setattr(graph, "_FEW_BYTES", 2000)
    monkeypatch.setattr(options, "MOST_LABELS", 100)


@each(
    ("file", "said"),
    [
        (onnx(b"\x0a\0" * 20_000), TOO_LONG),  # nodes
        (onnx(b"\x2a\0" * 20_000), TOO_LONG),  # weights
        (onnx(delimited(5, delimited(13, b"") * 20_000)), TOO_LONG),  # places of weights
        (onnx(delimited(5, delimited(8, b"a" * 400_000))), TOO_LONG),  # a name
        (onnx(delimited(5, b"\x32\0" * 100_000)), TOO_LONG),  # texts of a weight
        (onnx(delimited(5, b"\x32\0\x32\x7f")), "ends inside"),
        (onnx(delimited(12, delimited(2, delimited(1, b"\x08\1" + delimited(2, b"\x0a\0" * 20_000))))), TOO_LONG),
        (litert(20_000), TOO_LONG),
        (ir(b"<a/>" * 1001), "it has more than 1,000 elements and attributes"),
        (ir(b'<a b=""/>' * 501), "it has more than 1,000 elements and attributes"),
        (ir(b"&a;", b'<!DOCTYPE net [<!ENTITY a "<b/>">]>'), "it has a declaration, which no IR has"),
        (ir(b"a" * 16 * MB), "it has more than 16,777,216 bytes"),
        (saved_model(delimited(2, b"\x0a\0" * 1001)), "it has more fields than are read"),  # nodes
        (saved_model(delimited(2, delimited(1, b"\x2a\0" * 1001))), "it has more fields than are read"),
        (saved_model(b"\x2a\0" * 1001), "it has more fields than are read"),  # signatures
    ],
)
def test_the_steps_over_a_file_are_bounded(tmp_path: Path, small: None, file: tuple[str, bytes], said: str) -> None:
    name, content = file
    (tmp_path / name).write_bytes(content)
    (tmp_path / "model.bin").touch()
    assert said in str(version_problem(tmp_path, "m", 1))


@pytest.mark.parametrize("name", ["model.onnx", "model.xml", "model.tflite", "saved_model.pb"])
def test_a_reader_stops_at_the_deadline(tmp_path: Path, name: str) -> None:
    if name == "saved_model.pb":
        export_constant(tmp_path, 1, 1.0)
        folder = tmp_path / "1"
    else:
        write_dense_as(tmp_path / name)
        folder = tmp_path
    with pytest.raises(DeadlineExceeded), deadline(RequestContext(0).check):
        signatures_of(folder, "m", 1)
    with deadline(RequestContext(PATIENCE).check):
        assert signatures_of(folder, "m", 1)


def test_a_graph_that_leads_in_a_circle(tmp_path: Path) -> None:
    meta = graph._class("MetaGraphDef")()
    meta.saver_def.restore_op_name = "all"
    meta.graph_def.node.add(name="all", op="NoOp", input=["^assign", "^restore"])
    meta.graph_def.node.add(name="assign", op="AssignVariableOp", input=["v", "circle"])
    meta.graph_def.node.add(name="circle", op="Identity", input=["circle"])
    names = meta.graph_def.node.add(name="names", op="Const")
    names.attr["value"].tensor.string_val.append(b"w")
    meta.graph_def.node.add(name="restore", op="RestoreV2", input=["prefix", "names"])
    assert "the graph restores 1 variables from it, w" in str(variables.variables_problem(tmp_path, meta))


@each(
    ("files", "said"),
    [
        ({"lightbox.json": b" " * MB + b"{}"}, "lightbox.json cannot be read: it has more than 1,048,576 bytes"),
        ({"lightbox.json": b'{"outputs": [' + b"1," * 20 + b"1]}"}, "lightbox.json: the file: 21 values are wrong"),
        ({"lightbox.json": b'{"labels": "l.txt"}', "l.txt": b"a" * (16 * MB + 1)}, "it has more than 16,777,216 bytes"),
        ({"lightbox.json": b'{"labels": "l.txt"}', "l.txt": b"a\n" * 101}, "l.txt has 101 names, expected at most 100"),
        ({"lightbox.json": b'{"labels": "l.json"}', "l.json": b'["",' + b'"",' * 99 + b'""]'}, "has 101 names"),
    ],
)
def test_texts_of_a_model_are_bounded(tmp_path: Path, small: None, files: dict[str, bytes], said: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelOptionsError) as caught:
        load_options([tmp_path], load_settings({}))
    assert said in str(caught.value)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe would wait for its writer, and a device never ends."""
    os.mkfifo(tmp_path / "lightbox.json")
    with pytest.raises(ModelOptionsError, match=r"lightbox\.json cannot be read: it is not a regular file"):
        load_options([tmp_path], load_settings({}))
    for path in (tmp_path / "lightbox.json", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_file(path, 1)
    write_dense_as(tmp_path / "model.onnx")
    os.mkfifo(tmp_path / NOTES)
    (tmp_path / WEIGHTS_NOTE).parent.mkdir()
    os.mkfifo(tmp_path / WEIGHTS_NOTE)
    assert (version_problem(tmp_path, "m", 1), weights_note(tmp_path)) == (None, "")
    with open_file(tmp_path / "model.onnx") as file:
        assert file.read(1)


@pytest.fixture(scope="module")
def hostile_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    root = tmp_path_factory.mktemp("models")
    export_constant(root / "good", 1, 1.0)
    write_dense_as(root / "dense.onnx")
    dense = {"1/model.onnx": (root / "dense.onnx").read_bytes()}
    (root / "dense.onnx").unlink()
    files = {
        "nodes": {"1/model.onnx": onnx(b"\x0a\0" * 20_000_000)[1]},
        "buffers": {"1/model.tflite": litert(6_000_000)[1]},
        "layers": {"1/model.xml": ir(b"<a/>" * (25 * MB))[1], "1/model.bin": b"1"},
        "graph": {"1/saved_model.pb": saved_model(delimited(2, b"\x0a\0" * 20_000_000))[1]},
        "labels": {**dense, "code/lightbox.json": b'{"labels": "l.txt"}', "code/l.txt": b"\n" * (100 * MB)},
        "options": {**dense, "code/lightbox.json": b'{"labels": [' + b'"",' * (25 * MB) + b'""]}'},
    }
    for name, members in files.items():
        with tarfile.open(root / f"{name}.tar.gz", "w:gz", compresslevel=1) as archive:
            for path, content in (members | {"1/pad": os.urandom(2 * MB)}).items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    with running(root, tmp_path_factory.mktemp("run"), SAGEMAKER_MULTI_MODEL="true") as stack:
        yield stack


@pytest.mark.extended
def test_small_archives_take_neither_minutes_nor_gigabytes(hostile_stack: Stack) -> None:
    def use(target: str) -> int:
        headers = {"X_Amzn_SageMaker_Target_Model": target}
        return hostile_stack.invoke(IMAGE, "/endpoints/any/invocations", **headers).status_code

    assert use("good") == 200
    for name in ("nodes", "buffers", "layers", "graph", "labels", "options"):
        assert (name, use(f"{name}.tar.gz")) == (name, 424)
    assert use("good") == 200
    for process in hostile_stack.processes("gunicorn"):
        assert psutil.Process(process.pid).memory_info().rss < 1000 * MB
