"""Lightbox itself, started as a user starts it: ``serve.sh serve``."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmark.servers.base import Address, Running
from lightbox.harness import stack as harness_stack
from lightbox.harness.http_client import status_of
from lightbox.harness.ports import free_ports
from lightbox.harness.stack import clean_environ


@dataclass(frozen=True)
class Stack:
    """nginx, gunicorn and a model server over a folder of models; ``settings`` are environment variables.

    With ``front`` it speaks the Open Inference Protocol over gRPC too.
    """

    name: str
    models: Path
    settings: tuple[tuple[str, str], ...] = ()
    front: bool = False

    def start(self, folder: Path) -> Running:
        """Start the stack. Marks: ``sidecar`` when gunicorn answers through nginx, ``ready`` when /ping is 200."""
        # The path of a unix socket is short: the run directory cannot lie deep in a working copy.
        tmp = Path(tempfile.mkdtemp(prefix="lb-bench-"))
        front = free_ports() if self.front else None
        # A request that measures a wire names it. The embedded server has them all, the binary gRPC alone; the sample's
        # handler has ports, and a variable of its own.
        given = dict(self.settings)
        is_binary = "LIGHTBOX_ENGINE" not in given and real_binary()
        settings = {
            "LIGHTBOX_MODEL_DIR": str(self.models),
            **({"LIGHTBOX_TRANSPORT": "grpc,rest"} if is_binary and "PREDICT_USING_GRPC" not in given else {}),
            **({"LIGHTBOX_KSERVE_GRPC_PORT": str(front)} if front else {}),
            **given,
        }
        environ = clean_environ() | {"TMPDIR": str(tmp), "TF_CPP_MIN_LOG_LEVEL": "2"}
        stack = harness_stack.Stack(settings, environ, folder)
        address = Address(stack.port, f"127.0.0.1:{front}" if front else "")
        running = Running(self.name, stack, address, settings=stack.settings, command="./serve.sh serve", temporary=tmp)
        try:
            # GET is refused by the sidecar itself, with or without a model server behind it.
            running.started["sidecar"] = stack.wait_until(lambda: status_of(stack.port, "/invocations") == 405)
            running.started["ready"] = stack.until_ready()
            running.run_dir = next(tmp.glob("lightbox-*"))
        except BaseException:
            running.stop()
            raise
        return running


def model_server_kind() -> str:
    """Return ``tensorflow_model_server`` when serve.sh finds the real binary, else ``embedded``."""
    return "tensorflow_model_server" if real_binary() else "embedded"


def real_binary() -> Path | None:
    """Return the path of the real model server's binary, None where there is none."""
    found = shutil.which("tensorflow_model_server")
    return Path(found) if found else None
