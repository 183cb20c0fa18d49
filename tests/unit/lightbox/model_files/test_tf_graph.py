"""Compare the messages of protos/saved_model.proto with TensorFlow's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.model_files.tf_graph import parse
from lightbox.model_runtime.wire.descriptors import read_pool
from lightbox.model_runtime.wire.messages import placeholder_tensorflow
from support.models import GOLDEN
from support.patience import PATIENCE

with placeholder_tensorflow():
    from tensorflow.core.protobuf import saved_model_pb2

IMAGE_MEAN = GOLDEN / "image_mean" / "1"
FILE = (IMAGE_MEAN / "saved_model.pb").read_bytes()
CONTAINER = Path(__file__).parents[4] / "container"
PROTOS = CONTAINER.parent / "protos"
DESCRIPTORS = {
    "lightbox/model_files/saved_model.binpb": ["saved_model.proto"],
    "lightbox/features/open_inference/grpc/descriptors.binpb": [
        "health.proto",
        "open_inference.proto",
        "reflection.proto",
    ],
    "lightbox/model_runtime/server/grpc/configuration.binpb": ["configuration.proto"],
}


def fields_of(message: Any, seen: set[str]) -> dict[str, tuple[int, bool, str]]:
    """Return number, repetition and type of each field of a message and its nested messages, by path."""
    found: dict[str, tuple[int, bool, str]] = {}
    if message.name in seen:
        return found
    seen.add(message.name)
    for field in message.fields:
        inner = field.message_type
        kind = inner.name if inner else "int32" if field.enum_type else str(field.type)
        found[f"{message.name}.{field.name}"] = field.number, field.is_repeated, kind
        found |= fields_of(inner, seen) if inner else {}
    return found


def test_fields_are_those_of_tensorflow() -> None:
    own = fields_of(parse("SavedModel", b"").DESCRIPTOR, set())
    known = fields_of(saved_model_pb2.SavedModel.DESCRIPTOR, set())
    integer = str(parse("TensorInfo", b"").DESCRIPTOR.fields_by_name["dtype"].type)
    assert own == {
        path: (number, repeated, integer if kind == "int32" else kind)
        for path, (number, repeated, kind) in known.items()
        if path in own
    }


@pytest.mark.parametrize("binpb", DESCRIPTORS)
def test_descriptors_are_those_of_the_protos(binpb: str, tmp_path: Path) -> None:
    made = tmp_path / "made.binpb"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(PROTOS), f"--descriptor_set_out={made}"]
    subprocess.run([*command, *(str(PROTOS / name) for name in DESCRIPTORS[binpb])], check=True, timeout=PATIENCE)
    pools = read_pool(made), read_pool(CONTAINER / binpb)
    for name in DESCRIPTORS[binpb]:
        fresh, shipped = (pool.FindFileByName(name).serialized_pb for pool in pools)
        assert fresh == shipped, "run make protos"


@pytest.mark.extended
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, len(FILE) - 1), st.binary(max_size=8))
def test_a_changed_file_that_tensorflow_parses_is_parsed_alike(at: int, piece: bytes) -> None:
    data = FILE[:at] + piece + FILE[at + len(piece) :]
    try:
        theirs = saved_model_pb2.SavedModel.FromString(data)
    except DecodeError:
        return
    own = parse("SavedModel", data)
    assert [graph.meta_info_def.tags for graph in own.meta_graphs] == [
        graph.meta_info_def.tags for graph in theirs.meta_graphs
    ]
    assert [[(node.name, node.op, node.input) for node in graph.graph_def.node] for graph in own.meta_graphs] == [
        [(node.name, node.op, node.input) for node in graph.graph_def.node] for graph in theirs.meta_graphs
    ]


@pytest.mark.extended
def test_tensorflow_and_these_messages_live_in_one_process() -> None:
    code = (
        "import sys; from lightbox.model_files import saved_model as own; "
        "from pathlib import Path; folder = Path(sys.argv[1]); "
        "before = own.read_signatures(folder, 'm', 1); "
        "import tensorflow as tf; from tensorflow.core.protobuf import saved_model_pb2; "
        "theirs = saved_model_pb2.SavedModel.FromString((folder / 'saved_model.pb').read_bytes()); "
        "loaded = tf.saved_model.load(str(folder)).signatures; "
        "assert own.read_signatures(folder, 'm', 1) == before; "
        "assert set(loaded) == set(before) <= set(theirs.meta_graphs[0].signature_def), (set(loaded), set(before))"
    )
    command = [sys.executable, "-P", "-c", code, str(IMAGE_MEAN)]
    subprocess.run(command, env={"PYTHONPATH": str(CONTAINER)}, check=True, timeout=PATIENCE)
