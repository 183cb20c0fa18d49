"""Entry point: the command line of tensorflow_model_server, and its exit codes."""

from __future__ import annotations

import gc
import sys
from importlib import metadata

from lightbox.model_runtime.server.flags import FlagError, Options, parse, usage
from lightbox.model_runtime.wire import RELEASE
from lightbox.model_runtime.wire.status import StatusError

FAILED = 255


def main(arguments: list[str] | None = None) -> int:
    """Run the server until it is stopped; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    program = "lightbox model-server"
    try:
        options = parse(words)
    except FlagError as error:
        if str(error):
            print(error, file=sys.stderr)
        print(usage(program), end="")
        return FAILED
    if options.version:
        print(_versions())
        return 0
    if options.unknown:
        print(f"unknown argument: {options.unknown[0]}\n{usage(program)}", end="", flush=True)
    return _serve(options)


def _versions() -> str:
    found = {name: list(metadata.distributions(name=name)) for name in ("tensorflow-cpu", "tensorflow")}
    library = next((each.version for those in found.values() for each in those), "not installed")
    return f"TensorFlow ModelServer: {RELEASE} (Lightbox's embedded model server)\nTensorFlow Library: {library}"


def _serve(options: Options) -> int:
    # Only a valid command line pays for importing gRPC, protobuf and the TensorFlow runtime.
    gc.disable()  # imported modules stay: scanning them would slow the start
    from lightbox.model_runtime.server.server import Server

    gc.enable()
    try:
        server = Server(options)
        server.start()
    except StatusError as error:
        print(f"Failed to start server. Error: {error}", flush=True)
        return FAILED
    server.wait()
    return 0
