"""The bound's work in the processes of a stack: ``python -m benchmark.least_stack PORT``

nginx, gunicorn and a model server, without anything of Lightbox: no check, limit, error, deadline, log or metric. The
app resizes into memory that it shares with the model server. A stack of these processes can hardly take less CPU time.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache
from getpass import getuser
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino
import orjson

from benchmark import bound
from lightbox.images.preparation import Scaling

WORKERS, THREADS = 2, 40
CLASSES, IMAGE = (1, 1000), (1, 224, 224, 3)
IMAGE_BYTES = int(np.prod(IMAGE)) * 4
NGINX = """
user {user}; worker_processes {workers}; daemon off; pid {folder}/nginx.pid; error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_max_body_size 100m; client_body_buffer_size 2m; client_body_temp_path {folder}/bodies;
    proxy_buffer_size 16k; proxy_buffers 32 64k; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    upstream app {{ server unix:{folder}/app.sock; keepalive 64; }}
    server {{
        listen {port};
        location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    }}
}}
"""


_idle: list[tuple[socket.socket, npt.NDArray[np.float32]]] = []
"""The app's connections to the model server, each with the image that both sides share."""


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a JPEG with its probabilities, and a GET with 200 when the model server listens."""
    connection, image = _idle.pop() if _idle else _connect(Path(os.environ["LEAST_STACK"], "model.sock"))
    body = b""
    if environ["REQUEST_METHOD"] == "POST":
        _prepare()(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])), image[0])
        connection.sendall(b"1")
        output = connection.recv(4 * CLASSES[1], socket.MSG_WAITALL)
        probabilities = np.frombuffer(output, np.float32).reshape(CLASSES)
        body = orjson.dumps({"predictions": probabilities}, option=orjson.OPT_SERIALIZE_NUMPY)
    _idle.append((connection, image))
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


@cache
def _prepare() -> Callable[[bytes, npt.NDArray[Any]], None]:
    return bound.preparation(Scaling.TF, np.dtype(np.float32))


def _connect(path: Path) -> tuple[socket.socket, npt.NDArray[np.float32]]:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    file = os.memfd_create("image")
    os.ftruncate(file, IMAGE_BYTES)
    socket.send_fds(connection, [b"1"], [file])
    return connection, _shared(file)


def _shared(file: int) -> npt.NDArray[np.float32]:
    memory = mmap.mmap(file, IMAGE_BYTES)
    os.close(file)
    return np.frombuffer(memory, np.float32).reshape(IMAGE)


def model_server(path: Path) -> None:
    """Serve mobilenet_v2 at a unix socket: a thread for each connection, a stream of OpenVINO for each core."""
    model = bound.compiled(bound.mobilenet_v2_folder(), streams=os.cpu_count() or 1)

    def serve(connection: socket.socket) -> None:
        _, (file,), _, _ = socket.recv_fds(connection, 1, 1)
        image = _shared(file)  # OpenVINO holds no reference to it
        infer = bound.inference(model, openvino.Tensor(image, shared_memory=True))
        while connection.recv(1):
            connection.sendall(infer().data)

    with socket.create_server(str(path), family=socket.AF_UNIX) as listening:
        while True:
            Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()


def main(port: int) -> None:
    """Run the three until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with tempfile.TemporaryDirectory(prefix="lb-least-") as folder, ExitStack() as running:
        Path(folder, "nginx.conf").write_text(NGINX.format(user=getuser(), workers=WORKERS, folder=folder, port=port))
        python, environ = [sys.executable, "-m"], os.environ | {"LEAST_STACK": folder}
        gunicorn = [*python, "gunicorn", f"--bind=unix:{folder}/app.sock", "--no-control-socket", "--keep-alive=75"]
        gunicorn += ["--worker-class=gthread", f"--workers={WORKERS}", f"--threads={THREADS}"]
        for command in (
            [*python, "benchmark.least_stack", "model_server", f"{folder}/model.sock"],
            [*gunicorn, "benchmark.least_stack:app"],
            ["nginx", "-c", f"{folder}/nginx.conf"],
        ):
            process = running.enter_context(subprocess.Popen(command, env=environ))  # noqa: S603 - programs named above
            running.callback(process.terminate)
        process.wait()


if __name__ == "__main__":
    if sys.argv[1] == "model_server":
        model_server(Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]))
