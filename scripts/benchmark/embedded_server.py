"""What the embedded model server adds to the model: one run, one table, ratios and differences only.

    .venv/bin/python scripts/benchmark/embedded_server.py [FOLDER]

Exports its models into FOLDER (a temporary one by default), starts the server, alternates calls of it
with calls of the same signature in this process (TensorFlow's own ``tf.saved_model.load``), and prints
medians beside what they should not exceed.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import grpc
import numpy as np
import orjson
import psutil

from lightbox.harness.http_client import Client, status_of
from lightbox.harness.server import ServerProcess
from lightbox.harness.tables import table
from lightbox.model_server.allocator import keep_freed_memory
from lightbox.tfs_wire.messages import predict_pb2

ROUNDS = 200
CLIENTS = 8
SECONDS = 5.0
MODELS = ("light", "mobilenet", "big", "one_thread")
IMAGE = (1, 224, 224, 3)
GRPC_PORT, REST_PORT = 28510, 28511
METHOD = "/tensorflow.serving.PredictionService/Predict"


class Row(NamedTuple):
    """One line of the table; ``holds`` says whether the figure is within its limit."""

    what: str
    figure: str
    limit: str
    holds: bool


# ----------------------------------------------------------------------- models


def export_models(folder: Path) -> None:
    """Write the four models: light, real, with a 28 MB output, and one that uses a single thread."""
    import tensorflow as tf

    def save(name: str, shape: list[int | None], serve: Callable[[Any], Any]) -> None:
        module = tf.Module()
        module.serve = tf.function(
            lambda x: {"y": serve(x)}, input_signature=[tf.TensorSpec(shape, tf.float32, name="x")]
        )
        tf.saved_model.save(module, str(folder / name / "1"), signatures={"serving_default": module.serve})

    image = [None, *IMAGE[1:]]
    save("light", image, lambda x: tf.reduce_mean(x, axis=[1, 2]) @ tf.ones([3, 1000]))
    save("big", [None], lambda x: tf.ones([1, 76725, 91]) * x[0])
    weights = tf.constant(np.random.default_rng(1).random((256, 256), np.float32) / 256)

    def multiply_many_times(x: Any) -> Any:
        def step(count: Any, matrix: Any) -> tuple[Any, Any]:
            return count + 1, tf.tanh(matrix @ weights)

        start = [tf.constant(0), tf.ones([256, 256]) * x[0]]
        return tf.while_loop(lambda count, _: count < 40, step, start, parallel_iterations=1)[1][:1]

    save("one_thread", [None], multiply_many_times)
    network = tf.keras.applications.MobileNetV2(weights=None)
    archive = tf.keras.export.ExportArchive()
    archive.track(network)
    spec = tf.TensorSpec(image, tf.float32, name="x")
    archive.add_endpoint("serve", lambda x: {"y": network(x, training=False)}, input_signature=[spec])
    archive.write_out(str(folder / "mobilenet" / "1"), verbose=False)


# ----------------------------------------------------------------------- server


def start_server(folder: Path) -> ServerProcess:
    """Start the server with every model and wait until it answers."""
    entries = "".join(
        f'config {{ name: "{name}" base_path: "{folder / name}" model_platform: "tensorflow" }}' for name in MODELS
    )
    config = folder / "models.config"
    config.write_text(f"model_config_list {{ {entries} }}")
    command = (sys.executable, "-P", "-m", "lightbox.model_server")
    flags = [f"--port={GRPC_PORT}", f"--rest_api_port={REST_PORT}", f"--model_config_file={config}"]
    flags.append("--tensorflow_intra_op_parallelism=1")
    server = ServerProcess([*command, *flags], os.environ, folder)
    server.wait_until(lambda: status_of(REST_PORT, "/v1/models/light") is not None)
    return server


def request_of(model: str, array: np.ndarray[Any, Any]) -> bytes:
    """Return a serialized PredictRequest with ``tensor_content``."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    tensor = request.inputs["x"]
    tensor.dtype = 1
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = array.tobytes()
    return bytes(request.SerializeToString())


def channel() -> grpc.Channel:
    """Return a connection of its own."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(f"127.0.0.1:{GRPC_PORT}", options=options)


# --------------------------------------------------------------------- measuring


def medians(rounds: int, *actions: Callable[[], object]) -> list[float]:
    """Return the median time of each action in milliseconds; the actions take turns."""
    times: list[list[float]] = [[] for _ in actions]
    for turn in range(rounds + 5):
        for action, measured in zip(actions, times, strict=True):
            start = time.perf_counter()
            action()
            if turn >= 5:
                measured.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(measured) for measured in times]


def in_process(folder: Path, model: str) -> Callable[[np.ndarray[Any, Any]], object]:
    """Return the model's signature as TensorFlow itself calls it."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder / model / "1"))
    signature = loaded.signatures["serving_default"]

    def call(array: np.ndarray[Any, Any]) -> object:
        return loaded and signature(x=tf.constant(array))["y"].numpy()

    return call


def grpc_row(folder: Path, model: str, limit: float | None) -> Row:
    """Compare a gRPC call with the same signature in process."""
    array = np.random.default_rng(1).random(IMAGE, np.float32)
    model_call, data = in_process(folder, model), request_of(model, array)
    with channel() as connection:
        call = connection.unary_unary(METHOD)
        server, alone = medians(ROUNDS, lambda: call(data), lambda: model_call(array))
    more = server - alone
    figure = f"{more:+.2f} ms (gRPC {server:.2f}, in process {alone:.2f})"
    what = f"gRPC Predict of 1x224x224x3 float32 over the same signature in process, `{model}`"
    return Row(what, figure, "" if limit is None else f"at most +{limit:.1f} ms", limit is None or more <= limit)


def rest_row(folder: Path, model: str) -> Row:
    """Compare a REST call with parsing its JSON and running the model."""
    array = np.random.default_rng(1).random(IMAGE, np.float32)
    body = orjson.dumps({"instances": array}, option=orjson.OPT_SERIALIZE_NUMPY)
    model_call = in_process(folder, model)
    client = Client(REST_PORT)

    def call() -> None:
        answer = client.send("POST", f"/v1/models/{model}:predict", body)
        assert answer.status == 200, answer.body

    server, parse, alone = medians(ROUNDS // 2, call, lambda: orjson.loads(body), lambda: model_call(array))
    ratio = server / (parse + alone)
    figure = f"{ratio:.2f} (REST {server:.1f} ms, parse {parse:.1f} ms, model {alone:.1f} ms)"
    what = f"REST predict of the same over orjson.loads of its body plus the model, `{model}`"
    return Row(what, figure, "at most 2.5", ratio <= 2.5)


def big_row(folder: Path) -> Row:
    """Measure a 28 MB answer."""
    array = np.ones(1, np.float32)
    model_call, data = in_process(folder, "big"), request_of("big", array)
    with channel() as connection:
        call = connection.unary_unary(METHOD)
        server, alone = medians(ROUNDS // 4, lambda: call(data), lambda: model_call(array))
    figure = f"{server - alone:+.1f} ms (gRPC {server:.1f}, in process {alone:.1f})"
    return Row("28 MB output over gRPC on top of the model", figure, "at most +60 ms", server - alone <= 60)


def throughput(clients: int) -> float:
    """Return calls per second of so many clients with a connection each."""
    data, counts, end = request_of("one_thread", np.ones(1, np.float32)), [0] * clients, time.monotonic() + SECONDS

    def work(index: int) -> None:
        with channel() as connection:
            call = connection.unary_unary(METHOD)
            while time.monotonic() < end:
                call(data)
                counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def clients_row() -> Row:
    """Compare eight clients with one."""
    one, eight = throughput(1), throughput(CLIENTS)
    figure = f"{eight / one:.2f} ({eight:.0f}/s and {one:.0f}/s)"
    return Row(
        f"Throughput of {CLIENTS} clients over that of one, `one_thread`", figure, "at least 1.6", eight >= 1.6 * one
    )


def memory_rows(server: ServerProcess) -> list[Row]:
    """Measure how the server's memory grows from 1,000 to 10,000 image requests."""
    data = request_of("light", np.zeros(IMAGE, np.float32))
    observed, sizes = psutil.Process(server.process.pid), {}
    with channel() as connection:
        call = connection.unary_unary(METHOD)
        for count in range(1, 10_001):
            call(data)
            sizes[count] = observed.memory_info().rss if count in (1_000, 10_000) else 0
    ratio = sizes[10_000] / sizes[1_000]
    figure = f"{ratio:.3f} ({sizes[10_000] >> 20} MB and {sizes[1_000] >> 20} MB)"
    return [Row("Resident size after 10,000 requests over that after 1,000", figure, "at most 1.05", ratio <= 1.05)]


def start_row(folder: Path) -> Row:
    """Compare starting a server with importing TensorFlow."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import tensorflow"], check=True, capture_output=True)
    imported = time.perf_counter() - start
    start = time.perf_counter()
    with start_server(folder):
        started = time.perf_counter() - start
    figure = f"{started / imported:.2f} ({started:.1f} s and {imported:.1f} s)"
    return Row(f"Start with {len(MODELS)} models over `import tensorflow`", figure, "", True)


def main() -> int:
    """Print the table; return 1 if a limit does not hold."""
    keep_freed_memory()
    gc.disable()  # TensorFlow's objects would slow the parsing that the server is compared with
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="model_server_benchmark"))
    if not (folder / "mobilenet").exists():
        export_models(folder)
    rows = [start_row(folder)]
    with start_server(folder) as server:
        rows += [grpc_row(folder, "light", 1.0), grpc_row(folder, "mobilenet", None)]
        rows += [rest_row(folder, "light"), rest_row(folder, "mobilenet"), clients_row(), big_row(folder)]
        rows += memory_rows(server)
    cells = [(row.what, row.figure, row.limit, "yes" if row.holds else "NO") for row in rows]
    print("\n".join(table(("what", "figure", "limit", "holds"), cells)))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
