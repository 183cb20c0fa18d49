"""Modules made from descriptors, compared with those of the installed packages."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lightbox.model_runtime.wire import RELEASE, stubs
from lightbox.model_runtime.wire.described_modules import DESCRIPTORS, DescribedModules, module_name
from support import commands
from support.other_packages import BOTH, other_packages
from support.parameters import each
from write_messages import installed_files

CONTAINER = Path(__file__).parents[5] / "container"
TELL = """
import importlib, json, sys
from lightbox.model_runtime.wire.messages import placeholder_tensorflow
with placeholder_tensorflow():
    modules = {name: importlib.import_module(name) for name in sys.argv[1:]}
print(json.dumps({
    module: {
        name: [type(value).__name__, getattr(getattr(value, "DESCRIPTOR", None), "full_name", None)]
        for name, value in vars(found).items()
        if not name.startswith("_") and not name.endswith("_pb2")
    }
    for module, found in modules.items()
}))
"""


def described(tmp_path: Path, modules: list[str], *hidden: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the kind of each name in these modules, and the protobuf type it describes."""
    environ = os.environ | other_packages(tmp_path / "reports", *hidden)
    environ["PYTHONPATH"] += f"{os.pathsep}{CONTAINER}"
    command = [sys.executable, "-P", "-c", TELL, *modules]
    printed = commands.output(command, env=environ)
    found: Mapping[str, Mapping[str, Any]] = json.loads(printed)
    return found


def test_descriptors_are_those_of_the_installed_packages() -> None:
    assert DESCRIPTORS.read_bytes() == installed_files().SerializeToString(), "run make protos"
    assert metadata.version("tensorflow-serving-api") == RELEASE


def test_modules_have_what_the_installed_ones_have(tmp_path: Path) -> None:
    modules = [module_name(file.name) for file in installed_files().file]
    installed, made = described(tmp_path, modules), described(tmp_path, modules, *BOTH)
    assert made == installed
    assert made["tensorflow_serving.apis.predict_pb2"]["PredictRequest"][1] == "tensorflow.serving.PredictRequest"


class Channel:
    """Records the calls that a client registers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, Any]] = []

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> None:
        self.calls.append((method, request_serializer, response_deserializer))


@pytest.mark.parametrize("service", ["PredictionService", "ModelService"])
def test_clients_make_the_calls_of_the_installed_ones(service: str) -> None:
    installed = getattr(stubs, f"{service.removesuffix('Service').lower()}_service_pb2_grpc")
    made = ModuleType(installed.__name__)
    DescribedModules().exec_module(made)
    theirs, ours = Channel(), Channel()
    getattr(installed, f"{service}Stub")(theirs)
    client = getattr(made, f"{service}Stub")(ours)
    assert ours.calls == theirs.calls
    assert [path.rpartition("/")[2] for path, _, _ in ours.calls] == list(vars(client))


@each("name", ["tensorflow", "tensorflow.python", "tensorflow_serving.apis.nothing_pb2", "numpy"])
def test_what_is_not_described_is_not_found(name: str) -> None:
    assert DescribedModules().find_spec(name, None) is None
