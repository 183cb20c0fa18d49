"""Wires the parts together: starts them in order, polls, and stops without losing a call."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable

import grpc

from model_server import grpc_server, model_config
from model_server.allocator import keep_freed_memory
from model_server.core import ServerCore
from model_server.flags import Options
from model_server.grpc_services import Services
from model_server.health import HealthService
from model_server.loader import Loader
from model_server.manager import LoadPolicy, Manager
from model_server.rest_api import RestApi
from model_server.rest_server import RestServer
from tfs_wire.messages import config_pb2
from tfs_wire.status import StatusError, invalid

log = logging.getLogger("model_server")

DRAIN_SECONDS = 30.0


class Server:
    """One model server process."""

    def __init__(self, options: Options) -> None:
        """Check what can be checked before a model is loaded; raise StatusError if it is wrong."""
        logging.basicConfig(format="%(asctime)s %(levelname).1s %(message)s", level=logging.INFO)
        keep_freed_memory()
        self._options = options
        self._check_options()
        self._config = self._read_config()
        self._stopping = threading.Event()
        self._stopped_by = signal.SIGTERM
        self._manager = Manager(self._loader(), self._load_policy())
        self._core = ServerCore(self._manager, options.allow_version_labels_for_unavailable_models)
        self._grpc: grpc.Server | None = None
        self._rest: RestServer | None = None

    # ----------------------------------------------------------------- options

    def _check_options(self) -> None:
        options = self._options
        if not options.model_base_path and not options.model_config_file:
            raise invalid("Both server_options.model_base_path and server_options.model_config_file are empty!")
        if not options.port and not options.grpc_socket_path:
            text = "At least one of server_options.grpc_port or server_options.grpc_socket_path must be set."
            raise invalid(text)
        unused = options.without_effect()
        if unused:
            log.info("flags without effect in this server: %s", ", ".join(f"--{name}" for name in unused))

    def _read_config(self) -> model_config.ModelServerConfig:
        if self._options.model_config_file:
            return model_config.read_config(self._options.model_config_file)
        return model_config.single_model(self._options.model_name, self._options.model_base_path)

    def _load_policy(self) -> LoadPolicy:
        options = self._options
        return LoadPolicy(
            options.num_load_threads,
            options.num_unload_threads,
            options.max_num_load_retries,
            options.load_retry_interval_micros / 1e6,
        )

    def _loader(self) -> Loader:
        options = self._options
        session = config_pb2.ConfigProto()
        if options.tensorflow_session_config_file:
            model_config.read_text_proto(options.tensorflow_session_config_file, session)
        both = options.tensorflow_session_parallelism
        intra = options.tensorflow_intra_op_parallelism or both
        inter = options.tensorflow_inter_op_parallelism or both
        if intra:
            session.intra_op_parallelism_threads = intra
        if inter:
            session.inter_op_parallelism_threads = inter
        return Loader(tuple(options.saved_model_tags.split(",")), session.SerializeToString())

    # ------------------------------------------------------------------- start

    def start(self) -> None:
        """Load the first models, then open the ports; raise StatusError if there is nothing to serve."""
        self._catch_signals()
        self._load_first_models()
        if self._stopping.is_set():
            return
        self._start_grpc()
        self._start_rest()
        # What is alive now stays alive: keep it out of the collector's way; and let a body of 50,000
        # small lists be read without the collector looking at them all several times.
        gc.collect()
        gc.freeze()
        gc.set_threshold(1_000_000, 10, 10)
        self._every(self._options.file_system_poll_wait_seconds, self._core.poll)
        if self._options.model_config_file:
            self._every(self._options.model_config_file_poll_wait_seconds, self._reread_config)

    def _load_first_models(self) -> None:
        names = set(self._core.apply(self._config))
        wanted = {model.name for model in self._config.model_config_list.config}
        interval = self._options.file_system_poll_wait_seconds
        while names != wanted and not self._stopping.wait(max(interval, 1)):
            if interval > 0:
                names = set(self._core.poll())
        if not self._stopping.is_set():
            self._core.wait(sorted(wanted), "servable")

    def _start_grpc(self) -> None:
        options = self._options
        handlers: list[grpc.GenericRpcHandler] = [Services(self._core, options.enable_serialization_as_tensor_content)]
        if options.enable_grpc_healthcheck_service:
            handlers.append(HealthService())
        arguments = grpc_server.channel_arguments(options.grpc_channel_arguments)
        server = grpc_server.create(handlers, options.grpc_max_threads, arguments)
        grpc_server.bind(server, options.port, options.grpc_socket_path, None)
        server.start()
        self._grpc = server
        if options.port:
            log.info("Running gRPC ModelServer at 127.0.0.1:%d ...", options.port)
        if options.grpc_socket_path:
            log.info("Running gRPC ModelServer at UNIX socket %s ...", options.grpc_socket_path)

    def _start_rest(self) -> None:
        options = self._options
        port = options.rest_api_port
        if not port:
            return
        if port == options.port:
            text = "server_options.http_port cannot be same as grpc_port."
            text += " Please use a different port for HTTP/REST API. Skipped exporting HTTP/REST API."
            log.error(text)
            return
        api = RestApi(self._core, options.rest_api_timeout_in_ms / 1000, options.rest_api_enable_cors_support)
        try:
            self._rest = RestServer(port, options.rest_api_num_threads, api.handle)
        except OSError:
            log.error("Failed to start HTTP Server at localhost:%d", port)
            return
        self._rest.start()
        log.info("Exporting HTTP/REST API at:localhost:%d ...", port)

    # ----------------------------------------------------------------- running

    def _every(self, seconds: int, action: Callable[[], object]) -> None:
        if seconds <= 0:
            return

        def repeat() -> None:
            while not self._stopping.wait(seconds):
                try:
                    action()
                except Exception:
                    log.exception("polling failed")

        threading.Thread(target=repeat, name="poll", daemon=True).start()

    def _reread_config(self) -> None:
        try:
            config = model_config.read_config(self._options.model_config_file)
        except StatusError as error:
            log.error("Failed to read ModelServerConfig file: %s", error.message)
            return
        if config == self._config:
            return
        try:
            self._core.apply(config)
            self._config = config
        except StatusError as error:
            log.error("Failed to apply ModelServerConfig file: %s", error)

    def _catch_signals(self) -> None:
        def stop(number: int, _: object) -> None:
            self._stopped_by = signal.Signals(number)
            self._stopping.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)

    def wait(self) -> None:
        """Serve until SIGTERM or SIGINT, let calls under way end, then die of that signal."""
        while not self._stopping.wait(3600):
            pass
        grpc_ended = self._grpc.stop(DRAIN_SECONDS) if self._grpc is not None else None
        if self._rest is not None:
            self._rest.stop(DRAIN_SECONDS)
        if grpc_ended is not None:
            grpc_ended.wait()
        self._manager.stop()
        signal.signal(self._stopped_by, signal.SIG_DFL)
        os.kill(os.getpid(), self._stopped_by)
