"""The embedded server as users start it: a process, two ports, a models folder."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lightbox.tools.harness.ports import free_ports
from support.isolation import own_environ
from support.patience import PATIENCE, poll

GOLDEN = Path(__file__).parents[1] / "contract" / "golden"
MODELS = GOLDEN / "models"
HELD_CALLS = 16
"""So many calls may be at doors while others are answered."""
END_SECONDS = 10.0
"""A server whose calls do not end is killed then."""
COMMAND = (sys.executable, "-P", "-m", "lightbox.model_runtime.server")


class ModelServer:
    """One server process; its REST timeout is long enough for a slow machine, unless a flag sets one."""

    def __init__(self, folder: Path, *flags: str, ports: bool = True, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.grpc_port = free_ports(2)
        self.rest_port = self.grpc_port + 1
        # A call at a door (support/held.py) holds one of TensorFlow's threads; there is one per core.
        own = [f"--rest_api_timeout_in_ms={1000 * PATIENCE:.0f}", f"--tensorflow_inter_op_parallelism={HELD_CALLS}"]
        if ports:
            own += [f"--port={self.grpc_port}", f"--rest_api_port={self.rest_port}"]
        self._out, self._err = folder / "stdout.log", folder / "stderr.log"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*COMMAND, *own, *flags], stdout=out, stderr=err, env=own_environ() | dict(env or {})
            )

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.terminate()  # coverage is written at its end
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def stdout(self) -> str:
        """The output so far."""
        return self._out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        """The log so far."""
        return self._err.read_text(errors="replace")

    @property
    def grpc_address(self) -> str:
        """The gRPC address."""
        return f"127.0.0.1:{self.grpc_port}"

    def wait_ready(self, seconds: float = PATIENCE) -> ModelServer:
        """Wait until the REST port answers."""
        self.until(self._answers, seconds)
        return self

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.stdout}\n{self.stderr}"
        try:
            self.rest("GET", "/v1/models/x")
        except (OSError, http.client.HTTPException):
            # The second: without a listener, the client can get the target port as its own source port.
            return False
        return True

    def is_stopping(self) -> bool:
        """Return whether the gRPC port refuses clients: a stop closes it first."""
        try:
            socket.create_connection(("127.0.0.1", self.grpc_port), timeout=PATIENCE).close()
        except ConnectionError:  # refused, or reset just before the accept
            return True
        return False

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Poll until the condition holds; fail with the log at the timeout."""
        assert any(condition() for _ in poll(seconds, 0.02)), f"not within {seconds} s:\n{self.stdout}\n{self.stderr}"

    def rest(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Send one request; return status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "surrogateescape")
        finally:
            connection.close()

    def predict(self, model: str, **body: Any) -> tuple[int, Any]:
        """POST :predict; return status and parsed body. ``model`` may include a version."""
        status, text = self.rest("POST", f"/v1/models/{model}:predict", json.dumps(body))
        return status, json.loads(text)

    def states(self, model: str) -> list[tuple[int, str, str]]:
        """Return (version, state, error text) of every version, newest first; empty for an unknown model."""
        status, text = self.rest("GET", f"/v1/models/{model}")
        if status != 200:
            return []
        found = json.loads(text)["model_version_status"]
        return [(int(item["version"]), item["state"], item["status"]["error_message"]) for item in found]

    def wait_for_states(self, model: str, *wanted: tuple[int, str]) -> None:
        """Wait until the model's versions have these states, newest first."""
        self.until(lambda: [(version, state) for version, state, _ in self.states(model)] == list(wanted))

    def wait_end(self) -> int:
        """Wait for the process and return its exit code."""
        return self.process.wait(PATIENCE)


def image(red: int) -> list[list[list[int]]]:
    """Return an instance for a held model (support/held.py)."""
    return [[[red, 0, 0]] * 8] * 8


def config_text(*models: str) -> str:
    """Return a ModelServerConfig with these entries, ``/models`` being the recorded models."""
    entries = "\n".join(f"config {{ {model} }}" for model in models)
    return f"model_config_list {{ {entries} }}".replace("/models/", f"{MODELS}/")


def golden_config() -> str:
    """Return the configuration of the recorded server, with local model paths."""
    return re.sub(r'"/models/', f'"{MODELS}/', (GOLDEN / "models.config").read_text())


def golden_server(folder: Path, *flags: str, more: str = "") -> Iterator[ModelServer]:
    """Run a server with the flags of the recorded one; ``more`` adds configuration entries."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "models.config"
    config.write_text(f"{golden_config().rstrip().removesuffix('}')}{more}}}")
    with ModelServer(
        folder,
        f"--model_config_file={config}",
        "--enable_grpc_healthcheck_service=true",
        "--allow_version_labels_for_unavailable_models=true",
        *flags,
    ) as server:
        yield server.wait_ready()
