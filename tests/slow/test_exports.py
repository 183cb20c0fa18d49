"""Exported models give the same results as direct calls of their runtime, over gRPC and REST."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
import pytest

from support.exports import EXPORTS, FORMATS, exported_models, file_of
from support.model_server import ModelServer
from support.predicting import predict

Answers = list[tuple[set[str], npt.NDArray[Any]]]
"""Of each output the names that the runtime has for it, and the value."""

NETWORKS = ("keras", "efficientnet_lite0")
OF_ONNX = [name for name, export in EXPORTS.items() if export.format == "onnx"]
SERVED = [
    ("auto", "keras_onnx"),
    *(("openvino", name) for name in EXPORTS),
    *(("onnxruntime", name) for name in OF_ONNX),
]
"""The models by the engine that is set. ``auto`` has a choice with ONNX only."""
LOAD_SECONDS = 3000.0
"""``auto`` measures both engines for each file in ONNX, one after the other, in processes of their own."""


@dataclass(frozen=True)
class Served:
    """A running server and its engine setting."""

    engine: str
    server: ModelServer

    def answering(self, name: str) -> str:
        """Return the engine of a model, from the log if ``auto`` chose it."""
        if self.engine != "auto":
            return self.engine
        folder = re.escape(str(exported_models() / name / "1"))
        (reply,) = re.findall(rf"engine of {folder}, signature serving_default: (\w+) ", self.server.stderr)
        return str(reply)

    def signature(self, name: str) -> Any:
        """Return the only signature of a model, from its metadata."""
        status, text = self.server.rest("GET", f"/v1/models/{name}/metadata")
        assert status == 200, text
        ((signature_name, signature),) = json.loads(text)["metadata"]["signature_def"]["signature_def"].items()
        assert signature_name == "serving_default"
        return signature


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Served]]:
    """Gives the server of an engine, with all models that it supports; the first test that uses it starts it."""
    with ExitStack() as running:

        @cache
        def start(engine: str) -> Served:
            folder = tmp_path_factory.mktemp(engine)
            names = [name for of_engine, name in SERVED if of_engine == engine]
            (folder / "models.config").write_text(f"model_config_list {{ {' '.join(map(_entry, names))} }}")
            flags = [f"--model_config_file={folder / 'models.config'}", f"--engine={engine}"]
            server = running.enter_context(ModelServer(folder, *flags, "--max_num_load_retries=0"))
            return Served(engine, server.wait_ready(LOAD_SECONDS))

        yield start


def _entry(name: str) -> str:
    return f'config {{ name: "{name}" base_path: "{exported_models() / name}" model_platform: "tensorflow" }}'


def direct(engine: str, name: str, rows: int) -> Answers:
    """Call the runtime directly, with one thread per call as in the server."""
    file, given = file_of(name), EXPORTS[name].given(rows)
    return {"onnxruntime": by_onnxruntime, "openvino": by_openvino}[engine](file, given)


def by_onnxruntime(file: Path, given: npt.NDArray[Any]) -> Answers:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    (wanted,) = session.get_inputs()
    return [({name}, value) for name, value in zip(names, session.run(names, {wanted.name: given}), strict=True)]


def by_openvino(file: Path, given: npt.NDArray[Any]) -> Answers:
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    compiled = openvino.Core().compile_model(file, "CPU", settings)
    answer = compiled([given])
    return [(port.get_names(), np.array(answer[port])) for port in compiled.outputs]


def agree(got: Mapping[str, npt.NDArray[Any]], wanted: Answers) -> None:
    """Each output is present once, by a runtime's name for it or as the only one, with the same bits."""
    assert len(got) == len(wanted)
    for names, value in wanted:
        (name,) = got if len(got) == 1 else names & got.keys()
        assert got[name].dtype == value.dtype
        np.testing.assert_array_equal(got[name], value)


@pytest.mark.parametrize(("engine", "name"), SERVED)
def test_the_answer_is_the_runtimes_own(served: Callable[[str], Served], engine: str, name: str) -> None:
    running, export = served(engine), EXPORTS[name]
    signature = running.signature(name)
    (input_name,) = signature["inputs"]
    with grpc.insecure_channel(running.server.grpc_address) as channel:
        answer = predict(channel, name, "serving_default", {input_name: export.given(3)})
    assert answer.code == "OK"
    agree(answer.outputs, direct(running.answering(name), name, 3))

    status, body = running.server.predict(name, inputs=export.given(1).tolist())
    assert status == 200, body
    outputs = body["outputs"] if len(signature["outputs"]) > 1 else dict.fromkeys(signature["outputs"], body["outputs"])
    arrays = {output: np.array(value, np.float32) for output, value in outputs.items()}
    agree(arrays, direct(running.answering(name), name, 1))


@pytest.mark.parametrize("network", NETWORKS)
def test_all_formats_of_a_network_are_answered_alike(served: Callable[[str], Served], network: str) -> None:
    """Converters and engines round differently: by at most 6.4e-7 when this was written."""
    running, answers = served("openvino"), {}
    for one in FORMATS:
        name = f"{network}_{one}"
        (input_name,) = running.signature(name)["inputs"]
        with grpc.insecure_channel(running.server.grpc_address) as channel:
            answer = predict(channel, name, "serving_default", {input_name: EXPORTS[name].given(3)})
        answers[one] = next(value for value in answer.outputs.values() if value.ndim == 2)
    for one, value in answers.items():
        np.testing.assert_allclose(value, answers["onnx"], rtol=0, atol=1e-5, err_msg=one)
    assert np.ptp(answers["onnx"], axis=0).max() > 1e-3, "the answer depends on the input"
