"""gunicorn's hooks, its ``--config``.

gunicorn treats a worker that does not serve yet as hanging, and kills it after its timeout, which is meant for serving.
A user's module may take longer to import, above all when every worker imports TensorFlow at once.

A freshly forked worker has the master's signal handlers, which put a signal into a queue that only the master reads: a
stop at this moment would be ignored until the timeout. Even earlier, before the first Python instruction in the new
process, Python drops signals; so stops are blocked around a fork.

The master imports the modules of every worker and compares the compiled decoding and resizing with Pillow's. It creates
no other objects: modules survive a fork, gRPC's channels do not. Workers share their pages, and a replacement answers
within a tenth of a second.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from gunicorn.glogging import Logger
from typing_extensions import override

from lightbox.base.telemetry import output
from lightbox.base.telemetry.logs import RecordHandler, TextFormatter, worker_descriptor
from lightbox.core.heartbeats import forget
from lightbox.features import enabled
from lightbox.serving.settings_loading import load_settings

secure_scheme_headers: dict[str, str] = {}
"""A caller's X-Forwarded-Proto is nothing to us; gunicorn would refuse several that disagree, with a page of HTML."""
forwarder_headers = ""
"""No header of a caller maps to a variable of WSGI."""
http_parser = "python"
"""Not gunicorn_h1c where that is installed: it refuses more than 256 headers, for a gain of 0.03 ms a request."""


class RecordLogger(Logger):  # type: ignore[misc] # gunicorn has no types
    """Gives gunicorn's records the form of all others; one with a traceback is written at once."""

    @override
    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        settings = load_settings()
        if settings.gunicorn_loglevel == "info":  # "info" is for handlers' records
            self.error_log.setLevel(logging.WARNING)
        for handler in list(self.error_log.handlers):
            if isinstance(handler, RecordHandler):
                self.error_log.removeHandler(handler)
            else:  # the supervisor keeps the last of these lines
                handler.setFormatter(TextFormatter())
                handler.addFilter(lambda record: not record.exc_info)
        whole = RecordHandler(worker_descriptor(), settings.log_format == "json", "gunicorn")
        whole.addFilter(lambda record: bool(record.exc_info))
        self.error_log.addHandler(whole)


logger_class = RecordLogger

LOAD_SECONDS = 120
"""How long a worker may load before gunicorn's timeout begins to count."""
BEAT_SECONDS = 1.0

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)

_loaded = threading.Event()
_held = threading.local()


def on_starting(server: Any) -> None:
    """Import the app, and the features' modules, for all workers; make forks lose no stop, and logs never fail."""
    server.systemd = True  # the listening socket is another process's: its file stays
    keep_stops_through_forks()
    sys.stdout, sys.stderr = (output.log_to(descriptor, waits=False) for descriptor in (1, 2))
    gc.disable()  # nearly all objects stay: scanning them would take a tenth of the time
    import lightbox.serving.worker  # noqa: F401
    from lightbox.images import jpeg, resize

    resize.load_native()
    jpeg.jpeg_agrees()
    for feature in enabled(load_settings()):
        for module in feature.modules:
            importlib.import_module(module)
    gc.enable()
    gc.collect()
    gc.freeze()  # a collection in a worker would write to the pages that it shares with the others


def keep_stops_through_forks() -> None:
    """Hold back stops around each fork of this process and of its children."""
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)


def _hold() -> None:
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def post_fork(server: Any, worker: Any) -> None:
    """Give signs of life for a worker that loads, and remember where the master's handlers leave signals."""
    worker.left_signals = server.SIG_QUEUE
    _loaded.clear()
    threading.Thread(target=_beat, args=(worker,), daemon=True).start()


def post_worker_init(worker: Any) -> None:
    """Leave the heartbeat to the worker, which serves from now on, unless it was stopped already."""
    _loaded.set()
    if any(number in STOPS for number in _left(worker.left_signals)):
        worker.alive = False


def child_exit(server: Any, worker: Any) -> None:
    """Forget the heartbeats of a worker that has ended."""
    forget(server.cfg.worker_tmp_dir, worker.pid)


def _left(signals: queue.SimpleQueue[int]) -> Iterator[int]:
    while not signals.empty():
        yield signals.get_nowait()


def _beat(worker: Any) -> None:
    for _ in range(int(LOAD_SECONDS / BEAT_SECONDS)):
        if _loaded.wait(BEAT_SECONDS):
            return
        worker.notify()
