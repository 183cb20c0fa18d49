"""The Open Inference Protocol over gRPC through the running stack, with tritonclient."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import requests
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from e2e.open_inference.test_rest_routes import photo, predictions
from sample_models import SAMPLES
from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image, held_file
from support.log_lines import without_times
from support.models import copy_golden
from support.patience import PATIENCE, poll
from support.stack import Stack, free_port, running

PORT = "LIGHTBOX_KSERVE_GRPC_PORT"


def connect(stack: Stack) -> Any:
    address = f"127.0.0.1:{stack.environ[PORT]}"
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(PATIENCE)
    return triton.InferenceServerClient(address)


@pytest.fixture
def client(stack: Stack) -> Iterator[Any]:
    with connect(stack) as found:
        yield found


def images(name: str, *bodies: bytes) -> Any:
    tensor = triton.InferInput(name, [len(bodies)], "BYTES")
    tensor.set_data_from_numpy(np.array(bodies, object))
    return tensor


@pytest.fixture
def input_name(client: Any) -> str:
    return str(client.get_model_metadata("mobilenet_v2").inputs[0].name)


def only_output(answer: Any) -> Any:
    return answer.as_numpy(answer.get_response().outputs[0].name)


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("mobilenet_v2")
    assert client.get_server_metadata().name == "lightbox"
    (tensor,) = client.get_model_metadata("mobilenet_v2", "1").inputs
    assert (tensor.datatype, list(tensor.shape)) == ("FP32", [-1, 224, 224, 3])
    assert {model.name for model in client.get_model_repository_index().models} == set(SAMPLES)


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_a_jpeg_gives_what_invocations_gives(
    stack: Stack, client: Any, input_name: str, compression: str | None
) -> None:
    tensor = images(input_name, photo())
    answer = client.infer("mobilenet_v2", [tensor], request_id="17", priority=3, compression_algorithm=compression)
    np.testing.assert_allclose(only_output(answer), predictions(stack, photo()), rtol=1e-5)
    assert answer.get_response().id == "17"


def test_ten_megabytes_of_raw_floats_pass(client: Any, input_name: str) -> None:
    pixels = np.zeros((17, 224, 224, 3), np.float32)
    tensor = triton.InferInput(input_name, list(pixels.shape), "FP32")
    tensor.set_data_from_numpy(pixels)
    assert only_output(client.infer("mobilenet_v2", [tensor])).shape == (17, 1000)


def test_errors_have_their_status(client: Any, input_name: str) -> None:
    with pytest.raises(InferenceServerException, match=r"INVALID_ARGUMENT.*Expected an image"):
        client.infer("mobilenet_v2", [images(input_name, b"no image")])
    with pytest.raises(InferenceServerException, match=r"NOT_FOUND.*'none'"):
        client.infer("none", [images(input_name, photo())])
    with pytest.raises(InferenceServerException, match=r"NOT_FOUND.*'none'"):
        client.get_model_metadata("none")


def test_a_stream(client: Any, input_name: str) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer("mobilenet_v2", [images(input_name, photo())])
    result, error = answers.get(timeout=PATIENCE)
    assert error is None
    assert only_output(result).shape == (1, 1000)
    client.stop_stream()


def test_calls_are_counted_and_logged_as_requests_are(stack: Stack, client: Any, input_name: str) -> None:
    client.infer("mobilenet_v2", [images(input_name, photo())], headers={"x-amzn-requestid": "counted"})
    route = "/inference.GRPCInferenceService/ModelInfer"
    labels = f'{{model="mobilenet_v2",route="{route}",status="200",transport="local"}}'
    pages = (requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text for _ in poll())
    assert any(f"lightbox_requests_total{labels}" in page for page in pages)
    (line,) = stack.lines_with("request_id=counted")
    assert without_times(line).startswith(
        f"[request] request_id=counted method=POST route={route} model=mobilenet_v2 transport=local"
    )
    assert "predict_ms=" in line


@pytest.mark.extended
def test_saturation_counts_http_and_grpc_together(door: Door, tmp_path: Path) -> None:
    """Four requests may be in progress. HTTP and gRPC have two each: one of them alone would report one half."""
    export_held_image(tmp_path / "models" / "held", door)
    body = png(np.full((8, 8, 3), 10))
    settings = {PORT: str(free_port()), "SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "4"}
    with (
        running(tmp_path / "models", tmp_path / "run", **settings, **MANY_HELD) as grpc_stack,
        connect(grpc_stack) as client,
        ThreadPoolExecutor(4) as pool,
        door,
    ):
        over_http = [pool.submit(grpc_stack.invoke, body, Content_Type="image/png") for _ in range(2)]
        over_grpc = [pool.submit(client.infer, "held", [images("image", body)]) for _ in range(2)]
        door.wait_for(4)
        assert any(_saturation(grpc_stack) > 0.7 for _ in poll(pause=0.2))
        page = requests.get(f"{grpc_stack.url}/metrics", timeout=PATIENCE).text
        door.open()
        assert [answer.result().status_code for answer in over_http] == [200, 200]
        for answer in over_grpc:
            answer.result()
        (shown,) = [float(line.split()[1]) for line in page.splitlines() if line.startswith("lightbox_saturation ")]
        assert 0.7 < shown <= 1
        assert any(_saturation(grpc_stack) < 0.5 for _ in poll(pause=0.2))


def _saturation(grpc_stack: Stack) -> float:
    return float(requests.get(f"{grpc_stack.url}/ping", timeout=PATIENCE).headers["X-Lightbox-Saturation"])


def test_the_front_is_as_light_as_a_worker(stack: Stack, client: Any, input_name: str) -> None:
    client.infer("mobilenet_v2", [images(input_name, photo())])
    (front,) = stack.processes("lightbox.features.open_inference.grpc.front")
    assert front.memory_info().rss < 120 * 1e6


@pytest.mark.extended
def test_calls_wait_for_the_successor_of_a_killed_front_and_ping_shows(client: Any, stack: Stack) -> None:
    (plan,) = stack.tmp.glob("lightbox-*/plan.json")
    with connect(stack) as again, ThreadPoolExecutor(1) as pool:
        with held_file(plan):  # the next worker waits for it
            stack.lose("lightbox.features.open_inference.grpc.front")
            assert stack.ping() == 503
            call = pool.submit(again.is_model_ready, "digits")
        assert call.result(PATIENCE)
    stack.wait_for_ping(200)


@pytest.mark.extended
def test_a_request_before_sigterm_gets_its_full_answer(door: Door, tmp_path: Path) -> None:
    export_held_image(tmp_path / "models" / "held", door)
    with (
        running(tmp_path / "models", tmp_path / "run", **{PORT: str(free_port())}) as grpc_stack,
        connect(grpc_stack) as client,
    ):
        children = psutil.Process(grpc_stack.process.pid).children(recursive=True)
        with ThreadPoolExecutor(1) as pool, door:
            asked = pool.submit(client.infer, "held", [images("image", png(np.full((8, 8, 3), 60)))])
            client.start_stream(lambda result, error: None)  # an idle stream does not delay the stop
            door.wait_for()
            assert grpc_stack.in_progress() == 1
            grpc_stack.begin_stop()
            assert not asked.done()
            door.open()
            assert grpc_stack.wait() == 0
            assert only_output(asked.result()).shape == (1,)
        assert any(not any(child.is_running() for child in children) for _ in poll())


@pytest.mark.extended
def test_models_come_and_go_in_multi_model_mode(tmp_path: Path) -> None:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    settings = {"SAGEMAKER_MULTI_MODEL": "true", PORT: str(free_port())}
    with (
        running(tmp_path / "models", tmp_path / "run", **settings) as grpc_stack,
        connect(grpc_stack) as client,
        triton_http.InferenceServerClient(f"127.0.0.1:{grpc_stack.port}") as over_http,
    ):
        assert over_http.is_server_ready()
        assert over_http.get_model_repository_index() == []
        with pytest.raises(InferenceServerException, match="model: there is no model 'none'"):
            over_http.load_model("none")
        over_http.load_model("image_mean")
        client.load_model("image_mean")
        assert grpc_stack.invoke(b"", "/v2/repository/index").json()[0]["state"] == "READY"
        name = client.get_model_metadata("image_mean").inputs[0].name
        assert client.infer("image_mean", [images(name, png(np.full((9, 5, 3), 7)))])
        over_http.unload_model("image_mean")
        client.load_model("image_mean")
        client.unload_model("image_mean")
        assert not over_http.is_model_ready("image_mean")
        with pytest.raises(InferenceServerException, match="NOT_FOUND"):
            client.is_model_ready("image_mean")
