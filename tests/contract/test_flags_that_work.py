"""Flags with an effect, end to end: batching, warm-up, metrics, sockets, TLS, serialization, limits."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections import Counter
from pathlib import Path

import grpc
import pytest

from lightbox.model_runtime.server.warmup import MAX_RECORDS
from lightbox.model_runtime.wire.messages import classification_pb2, model_pb2, predict_pb2, prediction_log_pb2
from lightbox.model_runtime.wire.records import WARM_UP_FILE
from lightbox.model_runtime.wire.stubs import prediction_service_pb2_grpc as service
from support.model_server import MODELS, ModelServer, golden_server
from support.models import write_warm_up
from support.patience import PATIENCE

pytestmark = pytest.mark.extended

HALF = ("--model_name=half", f"--model_base_path={MODELS}/half_plus_two")


def half_request(*values: float, model: str = "half") -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest(model_spec=model_pb2.ModelSpec(name=model))
    request.inputs["x"].dtype = 1
    request.inputs["x"].tensor_shape.dim.add(size=len(values))
    request.inputs["x"].float_val.extend(values)
    return request


def predict(channel: grpc.Channel, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
    return service.PredictionServiceStub(channel).Predict(request, timeout=PATIENCE)


def test_batching(tmp_path: Path) -> None:
    parameters = tmp_path / "batching"
    parameters.write_text("max_batch_size { value: 4 } batch_timeout_micros { value: 20000 }")
    with ModelServer(tmp_path, *HALF, "--enable_batching", f"--batching_parameters_file={parameters}") as server:
        server.wait_ready()
        outcomes: Counter[object] = Counter()
        rows = [[1.0], [2.0, 3.0], [4.0]] * 4

        def ask(values: list[float]) -> None:
            outcomes[
                server.predict("half", instances=values) == (200, {"predictions": [v / 2 + 3 for v in values]})
            ] += 1

        threads = [threading.Thread(target=ask, args=(values,)) for values in rows]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == {True: len(rows)}
        error = {"error": "Task size 5 is larger than maximum input batch size 4"}
        assert server.predict("half", instances=[1.0] * 5) == (400, error)


def test_a_model_brings_its_batching_parameters(tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(MODELS / "half_plus_two" / "1", folder / "1")
    (folder / "1" / "batching_params.pbtxt").write_text("max_batch_size { value: 2 }")
    flags = ["--model_name=half", f"--model_base_path={folder}", "--enable_batching"]
    with ModelServer(tmp_path / "server", *flags, "--enable_per_model_batching_parameters") as server:
        server.wait_ready()
        assert server.predict("half", instances=[1.0, 2.0])[0] == 200
        assert "larger than maximum input batch size 2" in server.predict("half", instances=[1.0] * 3)[1]["error"]


# ---------------------------------------------------------------------- warm-up


def warmed(tmp_path: Path, *entries: prediction_log_pb2.PredictionLog) -> Path:
    folder = tmp_path / "m"
    shutil.copytree(MODELS / "classify_regress" / "1", folder / "1")
    write_warm_up(folder / "1", *entries)
    return folder


def example_request() -> classification_pb2.ClassificationRequest:
    request = classification_pb2.ClassificationRequest(model_spec=model_pb2.ModelSpec(name="m"))
    request.input.example_list.examples.add().features.feature["x"].float_list.value.append(1.0)
    return request


def test_warm_up_requests_are_answered_before_the_model_is_available(tmp_path: Path) -> None:
    entry = prediction_log_pb2.PredictionLog()
    entry.classify_log.request.CopyFrom(example_request())
    folder = warmed(tmp_path, entry, entry)
    flags = ["--model_name=m", f"--model_base_path={folder}", "--num_request_iterations_for_warmup=3"]
    with ModelServer(tmp_path / "server", *flags) as server:
        server.wait_ready()
        assert "Number of warmup records read: 2." in server.stderr


@pytest.mark.parametrize("kind", ["damaged", "failing", "no log", "many"])
def test_warm_up_that_fails_ends_the_load(tmp_path: Path, kind: str) -> None:
    entry = prediction_log_pb2.PredictionLog()
    if kind == "failing":
        entry.predict_log.request.CopyFrom(half_request(1.0, model="m"))
    if kind == "many":
        entry.classify_log.request.CopyFrom(example_request())
    folder = warmed(tmp_path, *[entry] * (1 + MAX_RECORDS if kind == "many" else 1))
    if kind == "damaged":
        (folder / "1" / WARM_UP_FILE).write_bytes(b"x" * 100)
    flags = ["--model_name=m", f"--model_base_path={folder}", "--max_num_load_retries=0"]
    with ModelServer(tmp_path / "server", *flags) as server:
        assert server.wait_end() == 255
        text = {
            "damaged": "DATA_LOSS: corrupted record at 0",
            "failing": "INVALID_ARGUMENT: ",
            "no log": "UNIMPLEMENTED: ",
            "many": "INVALID_ARGUMENT: Number of warmup records exceeds the maximum (1000)",
        }
        assert f"due to error: {text[kind]}" in server.stdout
    if kind == "damaged":
        with ModelServer(tmp_path / "again", *flags, "--enable_model_warmup=false") as server:
            server.wait_ready()


# ---------------------------------------------------------------------- metrics


@pytest.mark.parametrize("path", ["", "/some/metrics"])
def test_metrics(tmp_path: Path, path: str) -> None:
    config = tmp_path / "monitoring"
    config.write_text(f'prometheus_config {{ enable: true path: "{path}" }}')
    with ModelServer(tmp_path, *HALF, f"--monitoring_config_file={config}") as server:
        server.wait_ready()
        assert server.predict("half", instances=[1.0])[0] == 200
        assert server.predict("half", instances=["a"])[0] == 400
        with grpc.insecure_channel(server.grpc_address) as channel:
            predict(channel, half_request(1.0))
        status, page = server.rest("GET", path or "/monitoring/prometheus/metrics")
    assert status == 200
    lines = page.splitlines()
    assert "# TYPE :tensorflow:serving:request_count counter" in lines
    assert ':tensorflow:serving:request_count{model_name="half",status="OK"} 2' in lines
    assert ':tensorflow:serving:request_count{model_name="half",status="INVALID_ARGUMENT"} 1' in lines
    for entrypoint in ("GRPC", "REST"):
        labels = f'model_name="half",API="Predict",entrypoint="{entrypoint}"'
        assert f":tensorflow:serving:request_latency_count{{{labels}}} 1" in lines
        assert f':tensorflow:serving:request_latency_bucket{{{labels},le="+Inf"}} 1' in lines
    labels = 'model_name="half",API="Predict",runtime="TF1"'
    assert f":tensorflow:serving:runtime_latency_count{{{labels}}} 2" in lines
    first_buckets = [line for line in lines if "runtime_latency_bucket" in line][:3]
    assert [re.search(r'le="(.*)"', line)[1] for line in first_buckets] == ["10", "18", "32.4"]  # type: ignore[index]
    assert any(line.startswith(":tensorflow:cc:saved_model:load_attempt_count{") for line in lines)


def test_no_metrics_unless_enabled(tmp_path: Path) -> None:
    config = tmp_path / "monitoring"
    config.write_text('prometheus_config { path: "/some/metrics" }')
    with ModelServer(tmp_path, *HALF, f"--monitoring_config_file={config}") as server:
        server.wait_ready()
        assert server.rest("GET", "/some/metrics")[0] == 404


# ------------------------------------------------------------------------- gRPC


def test_a_unix_socket(tmp_path: Path) -> None:
    with ModelServer(tmp_path, *HALF, f"--grpc_socket_path={tmp_path}/socket") as server:
        server.wait_ready()
        with grpc.insecure_channel(f"unix:{tmp_path}/socket") as channel:
            assert list(predict(channel, half_request(1.0)).outputs["y"].float_val) == [3.5]


def certificate(folder: Path) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, cert


def test_tls(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path)
    config = tmp_path / "ssl"
    quoted = {name: path.read_text().replace("\n", "\\n") for name, path in (("key", key), ("cert", cert))}
    config.write_text(f'server_key: "{quoted["key"]}"\nserver_cert: "{quoted["cert"]}"\n')
    with ModelServer(tmp_path, *HALF, f"--ssl_config_file={config}") as server:
        server.wait_ready()
        credentials = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(f"localhost:{server.grpc_port}", credentials) as channel:
            assert list(predict(channel, half_request(1.0)).outputs["y"].float_val) == [3.5]
        with grpc.insecure_channel(server.grpc_address) as channel, pytest.raises(grpc.RpcError):
            predict(channel, half_request(1.0))


def test_tensor_content_on_request(tmp_path: Path) -> None:
    for server in golden_server(tmp_path, "--enable_serialization_as_tensor_content=true"):
        with grpc.insecure_channel(server.grpc_address) as channel:
            output = predict(channel, half_request(1.0, model="half_plus_two")).outputs["y"]
            assert (output.tensor_content, list(output.float_val)) == (b"\x00\x00\x60\x40", [])
        assert server.predict("half_plus_two", instances=[1.0]) == (200, {"predictions": [3.5]})
