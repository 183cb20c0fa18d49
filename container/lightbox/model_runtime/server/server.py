"""Connects the parts: starts them in order, polls, and stops without losing a call."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import grpc

from lightbox.model_runtime import RECORD_MARK
from lightbox.model_runtime.server import model_config, warmup
from lightbox.model_runtime.server import session_configuration as configuration
from lightbox.model_runtime.server.allocator import keep_freed_memory
from lightbox.model_runtime.server.batching.batch_scheduler import BatchScheduler
from lightbox.model_runtime.server.calls import Calls
from lightbox.model_runtime.server.core import ServerCore
from lightbox.model_runtime.server.flags import Options
from lightbox.model_runtime.server.grpc import grpc_server
from lightbox.model_runtime.server.grpc.grpc_services import Services
from lightbox.model_runtime.server.grpc.health import HealthService
from lightbox.model_runtime.server.local_server import LocalServer
from lightbox.model_runtime.server.manager import Manager
from lightbox.model_runtime.server.monitoring import Metrics
from lightbox.model_runtime.server.rest.http_server import RestServer
from lightbox.model_runtime.server.rest.rest_api import RestApi
from lightbox.model_runtime.server.servable_loader import Loader
from lightbox.model_runtime.wire.status import StatusError

log = logging.getLogger("model_server")

DRAIN_SECONDS = 30.0

_LOOK_SECONDS = 0.5


class Server:
    """One model server process."""

    def __init__(self, options: Options) -> None:
        """Check everything that can be checked before a model is loaded; raise StatusError for errors."""
        mark = os.environ.get(RECORD_MARK, "")
        logging.basicConfig(format=f"{mark}%(asctime)s %(levelname).1s %(message)s", level=logging.INFO)
        keep_freed_memory()
        self._options = options
        configuration.check(options)
        self._config = configuration.models(options)
        self._credentials = grpc_server.credentials(options)
        self._metrics = Metrics()
        self._metrics_path = configuration.metrics_path(options)
        self._stopping = threading.Event()
        # The signals that stop the server, with what ends the process in the end; coverage.py has a handler there.
        self._endings = {signal.SIGTERM: signal.getsignal(signal.SIGTERM), signal.SIGINT: signal.SIG_DFL}
        self._stopped_by = signal.SIGTERM
        self._manager = Manager(self._loader(), configuration.load_policy(options))
        labels_first = options.allow_version_labels_for_unavailable_models
        self._manager.first_only = options.as_tensorflow_serving
        self._core = ServerCore(self._manager, labels_first, options.as_tensorflow_serving)
        self._calls = Calls(self._core, self._metrics, options.enable_signature_method_name_check)
        self._grpc: grpc.Server | None = None
        self._rest: RestServer | None = None
        self._local: LocalServer | None = None

    def _loader(self) -> Loader:
        options = self._options
        tags = tuple(options.saved_model_tags.split(","))
        warm_up = None
        if options.enable_model_warmup:
            warm_up = partial(warmup.warm_up, iterations=options.num_request_iterations_for_warmup)
        engine, report_dir, seconds = (
            configuration.engine(options, tags),
            options.engine_report_dir,
            options.load_seconds,
        )
        loader = Loader(engine.open, self._metrics, report_dir, warm_up, seconds=seconds)
        batching = configuration.batching(options)
        if batching is None:
            return loader
        common, for_model = batching
        scheduler = BatchScheduler(common.num_batch_threads)
        return replace(loader, batching=for_model, scheduler=scheduler)

    # ------------------------------------------------------------------- start

    def start(self) -> None:
        """Load the first models, then open the ports; raise StatusError without a model to serve."""
        if not self._options.as_tensorflow_serving:
            self._catch_signals()
        self._load_first_models()
        if self._stopping.is_set():
            return
        if self._options.as_tensorflow_serving:
            self._manager.continue_in_steps()
        self._start_grpc()
        self._start_rest()
        # Objects alive now stay alive: exclude them from collection; and parse a body of 50,000 small lists without
        # several collections of all of them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(1_000_000, 10, 10)
        self._every(self._options.file_system_poll_wait_seconds, self._core.poll)
        if self._options.model_config_file:
            self._every(self._options.model_config_file_poll_wait_seconds, self._reread_config)

    def _load_first_models(self) -> None:
        self._core.apply(self._config, at_once=True)
        names = set(self._core.with_versions())
        expected = {model.name for model in self._config.model_config_list.config}
        interval = self._options.file_system_poll_wait_seconds
        while names != expected and not self._stopping.wait(max(interval, 1)):
            if interval > 0:
                names = set(self._core.poll())
        while not self._stopping.is_set() and not self._core.settled(sorted(expected), _LOOK_SECONDS):
            pass
        if not self._stopping.is_set():
            self._core.check_loaded(sorted(expected))

    def _start_grpc(self) -> None:
        options = self._options
        services = Services(self._calls, options.enable_serialization_as_tensor_content, options.reload_over_tcp)
        handlers: list[grpc.GenericRpcHandler] = [services]
        if options.enable_grpc_healthcheck_service:
            handlers.append(HealthService())
        arguments = grpc_server.channel_arguments(options.grpc_channel_arguments)
        self._start_local(services)
        server = grpc_server.create(handlers, options.grpc_max_threads, arguments)
        grpc_server.bind(server, options.host, options.port, options.grpc_socket_path, self._credentials)
        server.start()
        self._grpc = server
        if options.port:
            log.info("Running gRPC ModelServer at %s:%d ...", options.host, options.port)
        if options.grpc_socket_path:
            log.info("Running gRPC ModelServer at UNIX socket %s ...", options.grpc_socket_path)

    def _start_local(self, services: Services) -> None:
        path, most = self._options.local_socket_path, grpc_server.most_calls(self._options.grpc_max_threads)
        if not path:
            return
        try:
            self._local = LocalServer(path, most, services.predict_bytes)
        except OSError as error:
            log.error("no local transport at %s: %s", path, error)
            return
        self._local.start()

    def _start_rest(self) -> None:
        options = self._options
        port, path = options.rest_api_port, options.rest_socket_path
        if not port and not path:
            return
        if port and port == options.port:
            text = "server_options.http_port cannot be same as grpc_port."
            text += " Please use a different port for HTTP/REST API. Skipped exporting HTTP/REST API."
            log.error(text)
            return
        pages = {self._metrics_path: self._metrics.page} if self._metrics_path else {}
        timeout = options.rest_api_timeout_in_ms / 1000
        api = RestApi(self._calls, timeout, options.rest_api_enable_cors_support, pages)
        try:
            self._rest = RestServer(port or None, options.rest_api_num_threads, api.handle, options.host, path)
        except OSError:
            log.error("Failed to start HTTP Server at localhost:%d", port)
            return
        self._rest.start()
        if port:
            log.info("Exporting HTTP/REST API at:localhost:%d ...", port)
        if path:
            log.info("Exporting HTTP/REST API at UNIX socket %s ...", path)

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
        """Let a thread wait for signals on a pipe, to which the interpreter's C handler writes.

        A Python handler would run only when the main thread wakes, and a signal received by another thread, such as
        gRPC's, does not wake it.
        """
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno())
        for number in self._endings:
            signal.signal(number, lambda *_: None)

        def wait_for_one() -> None:
            self._stopped_by = signal.Signals(reader.recv(1)[0])
            self._stopping.set()

        self._wakeup = reader, writer  # open for further signals, to the end
        threading.Thread(target=wait_for_one, name="signals", daemon=True).start()

    def wait(self) -> None:
        """Serve until SIGTERM or SIGINT, let calls in progress end, then exit by that signal."""
        self._stopping.wait()
        grpc_ended = self._grpc.stop(DRAIN_SECONDS) if self._grpc is not None else None
        if self._local is not None:
            self._local.stop(DRAIN_SECONDS)
        if self._rest is not None:
            self._rest.stop(DRAIN_SECONDS)
        if grpc_ended is not None:
            grpc_ended.wait()
        self._manager.stop()
        signal.signal(self._stopped_by, self._endings[self._stopped_by])
        os.kill(os.getpid(), self._stopped_by)
