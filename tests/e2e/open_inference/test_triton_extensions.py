"""Triton's extensions through the running stack, with tritonclient over HTTP and gRPC."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import requests
import tritonclient.grpc
import tritonclient.http

from e2e.open_inference.test_grpc_calls import connect
from e2e.open_inference.test_rest_routes import photo
from support.infer_requests import numbers
from support.patience import PATIENCE
from support.stack import Stack

FORMS = {"http": tritonclient.http, "grpc": tritonclient.grpc}
MODEL = "efficientnet_lite0"


def client_of(form: str, stack: Stack) -> Any:
    return connect(stack) if form == "grpc" else tritonclient.http.InferenceServerClient(f"127.0.0.1:{stack.port}")


def described(form: str, stack: Stack, what: str, *names: str) -> Any:
    """Call one of tritonclient's functions. Convert 64-bit numbers, which gRPC's JSON has as text, to numbers."""
    with client_of(form, stack) as client:
        found = getattr(client, what)(*names, **({"as_json": True} if form == "grpc" else {}))
    return numbers(found)


def infer(form: str, stack: Stack, **output: Any) -> Any:
    """Request the model's only output for a photo. Return its array."""
    module: Any = FORMS[form]
    with client_of(form, stack) as client:
        config = described(form, stack, "get_model_config", MODEL)
        config = config.get("config", config)
        tensor = module.InferInput(config["input"][0]["name"], [1], "BYTES")
        tensor.set_data_from_numpy(np.array([photo()], object))
        name = config["output"][0]["name"]
        return client.infer(MODEL, [tensor], outputs=[module.InferRequestedOutput(name, **output)]).as_numpy(name)


def test_the_configuration_is_the_metadata_in_tritons_words(stack: Stack) -> None:
    config = described("http", stack, "get_model_config", MODEL)
    metadata = described("http", stack, "get_model_metadata", MODEL)
    assert config == described("http", stack, "get_model_config", MODEL, "1")
    assert (config["name"], config["platform"], config["max_batch_size"]) == (MODEL, metadata["platform"], 1024)
    for mine, theirs in (("input", "inputs"), ("output", "outputs")):
        assert [(t["name"], t["data_type"], t["dims"]) for t in config[mine]] == [
            (t["name"], f"TYPE_{t['datatype']}", t["shape"][1:]) for t in metadata[theirs]
        ]
    by_grpc = described("grpc", stack, "get_model_config", MODEL)["config"]
    assert by_grpc == {key: value for key, value in config.items() if value}, "protobuf's JSON leaves out what is 0"


@pytest.mark.parametrize("form", FORMS)
def test_the_best_classes_with_the_models_labels(stack: Stack, form: str) -> None:
    answer = stack.invoke(photo(), X_Amzn_SageMaker_Custom_Attributes=f"tfs-model-name={MODEL}")
    ranked = answer.json()["predictions"][0][:3]
    found = [text.decode().split(":", 2) for text in infer(form, stack, class_count=3)[0]]
    assert [(int(index), label) for _, index, label in found] == [(item["class"], item["label"]) for item in ranked]
    np.testing.assert_allclose([float(score) for score, *_ in found], [item["score"] for item in ranked], rtol=1e-4)


def test_every_process_shows_the_predictions_of_all(stack: Stack) -> None:
    def counts(form: str) -> Any:
        (found,) = described(form, stack, "get_inference_statistics", MODEL, "1")["model_stats"]
        return found

    def asked(before: Any, after: Any, outcome: str) -> int:
        counted = [found["inference_stats"][outcome].get("count", 0) for found in (before, after)]
        return int(counted[1] - counted[0])

    before = counts("http")
    for _ in range(4):
        for form in FORMS:
            infer(form, stack)
        stack.invoke(photo(), X_Amzn_SageMaker_Custom_Attributes=f"tfs-model-name={MODEL}").raise_for_status()
    bad = {"inputs": [{"name": "none", "datatype": "FP32", "shape": [1], "data": [1]}]}
    assert requests.post(f"{stack.url}/v2/models/{MODEL}/infer", json=bad, timeout=PATIENCE).status_code == 400
    after = counts("http")
    by_grpc = counts("grpc")
    for found in (after, by_grpc):
        # Other tests may send requests to the same server meanwhile.
        assert asked(before, found, "success") >= 12
        assert asked(before, found, "fail") >= 1
        assert found["inference_count"] == found["execution_count"] == found["inference_stats"]["success"]["count"]
    durations = after["inference_stats"]
    parts = [durations[part]["ns"] for part in ("queue", "compute_input", "compute_infer", "compute_output")]
    assert min(parts[1:]) > 0
    assert sum(parts) <= durations["success"]["ns"]
    assert after["last_inference"] > before["last_inference"]
    listed = described("http", stack, "get_inference_statistics")["model_stats"]
    assert MODEL in [entry["name"] for entry in listed]


def test_json_with_boto3_as_for_sagemakers_triton_container(stack: Stack) -> None:
    name, size = "digits", [1, 8, 8, 1]
    (spec,) = requests.get(f"{stack.url}/v2/models/{name}", timeout=PATIENCE).json()["inputs"]
    size = [1, *spec["shape"][1:]]
    tensor = {"name": spec["name"], "shape": size, "datatype": spec["datatype"], "data": [0] * int(np.prod(size))}
    for content_type in ("application/json", "application/octet-stream"):
        answer = stack.boto3().invoke_endpoint(
            EndpointName="any",
            Body=json.dumps({"inputs": [tensor]}),
            ContentType=content_type,
            CustomAttributes=f"tfs-model-name={name}",
        )
        found = json.loads(answer["Body"].read())
        assert (found["model_name"], found["outputs"][0]["shape"]) == (name, [1, 10])
