"""A ``tensorflow_model_server`` for PATH: the embedded server, on all interfaces as the real binary binds its ports."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from support.stack import REPOSITORY

PROGRAM = f"""#!{sys.executable}
import sys

sys.path.insert(0, {str(REPOSITORY / "container")!r})
from model_server import grpc_server, main, rest_server

bind, listener = grpc_server.bind, rest_server._listener


class Everywhere:
    def __init__(self, server):
        self._server = server

    def add_insecure_port(self, address):
        if address.startswith("[::1]"):
            return 0
        return self._server.add_insecure_port(address.replace("127.0.0.1", "0.0.0.0"))


def listen(family, address, port):
    if address != "127.0.0.1":
        raise OSError("bound by the first")
    return listener(family, "0.0.0.0", port)


grpc_server.bind = lambda server, *others: bind(Everywhere(server), *others)
rest_server._listener = listen
sys.exit(main.main())
"""


def real_binary(folder: Path) -> dict[str, str]:
    """Put the program into a folder; return the environment in which serve.sh takes it for the real one."""
    program = folder / "bin" / "tensorflow_model_server"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {"LIGHTBOX_MODEL_SERVER": "tensorflow_model_server", "PATH": path}
