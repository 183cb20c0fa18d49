"""Starts the model server, gunicorn and nginx, watches each, and stops them in order."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from lightbox.base.errors import PortTaken, StartError
from lightbox.base.machine.gpus import gpu_environ, gpu_names
from lightbox.base.machine.local_sockets import INHERITED, bind
from lightbox.base.telemetry import logs, relay
from lightbox.base.telemetry.line_limit import few_lines, many_lines, record_lines
from lightbox.base.telemetry.logs import log
from lightbox.base.telemetry.metrics import CPU, LOG_LINES_DROPPED, VERSION_NOT_SERVED, Metric
from lightbox.base.telemetry.saturation import Saturation
from lightbox.core.additions import Additions, Measured
from lightbox.core.heartbeats import last_beat
from lightbox.core.start import Start
from lightbox.model_runtime import RECORD_MARK
from lightbox.model_runtime.engines import DEFAULT, disk_cache
from lightbox.nginx.admission import admission
from lightbox.nginx.installation import how_to_install
from lightbox.nginx.refusals import refusal
from lightbox.supervisor.child import LAST_OUTPUT_SECONDS, Child, describe_exit
from lightbox.supervisor.nginx_process import NginxProcess
from lightbox.supervisor.starting import commands
from lightbox.supervisor.starting.addresses import callers_line, listening
from lightbox.supervisor.starting.child_environment import child_environ, worker_environ
from lightbox.supervisor.starting.code_setup import CodeSetup
from lightbox.supervisor.starting.model_server_config import (
    BATCHING_PARAMETERS,
    batching_parameters,
    write_model_config,
)
from lightbox.supervisor.watching.hang_watch import HangWatch, Watched, runs
from lightbox.supervisor.watching.health_server import HealthServer
from lightbox.supervisor.watching.lasting import lasting
from lightbox.supervisor.watching.metrics_page import MetricsPage
from lightbox.supervisor.watching.model_server_log import ModelServerLog, unloadable
from lightbox.supervisor.watching.process_use import process_use
from lightbox.supervisor.watching.readiness import Health, ServerWatch
from lightbox.supervisor.watching.reload_watch import ReloadWatch
from lightbox.supervisor.watching.share_watch import ShareWatch
from lightbox.supervisor.watching.socket_files import SocketFiles
from lightbox.supervisor.watching.version_watch import VersionWatch
from lightbox.transports.model_status import ModelStatus
from lightbox.user_code.paths import UserCodeError, find_inference

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
FIRST_BACKOFF, LONGEST_BACKOFF = 0.1, 5.0
"""Least seconds between two starts of a child after its first failure, and after many in a row."""
LOOK_SECONDS = 0.2
"""Seconds between two signals to fronts behind nginx, while nginx stops."""
RENEWAL_SECONDS = 2.0
"""Seconds after which the old workers of a reloaded nginx accept no more connections."""
STEADY_SECONDS = 30.0
"""A child that has run this many seconds counts as stable: its earlier failures are forgotten."""
WITHOUT_NGINX = ("limit for slow clients", "TLS", "/metrics")
"""The parts that are missing without nginx, beside those of features."""
MOST_ENDS = 8
"""After this many failures in a row everything stops, and the platform starts the container again."""


class ChildFailed(StartError):
    """A child cannot stay up; the message says why."""


class Supervisor:
    """Runs one plan, and the features' additions, from start to stop."""

    def __init__(self, start: Start, added: Additions) -> None:
        self._start = start
        self._added = added
        settings, plan, run_dir = start.settings, start.plan, start.run_dir
        self._settings = settings
        self._plan = plan
        sidecar, self._health_address = start.address("sidecar"), start.address("health")
        self._statuses = [ModelStatus(server.grpc_target) for server in plan.model_servers]
        self._health = Health(plan.default_model, self._statuses, sidecar, run_dir.path)
        environ, self._stopping = child_environ(), asyncio.Event()
        self._nginx = NginxProcess(start, added, environ, self._stopping, self._renew_fronts)
        self._reloads = ReloadWatch(run_dir.path, self._statuses, settings.load_seconds, self._end_blocked)
        self._versions = VersionWatch(plan, settings, run_dir.path, self._statuses, sidecar)
        self._metrics: MetricsPage | None = None
        if settings.metrics:
            refused = self._nginx.refused.reasons
            self._metrics = MetricsPage(self._statuses, run_dir.path, added.served.names, refused, self._measure)
        self._shares = ShareWatch(plan, settings, run_dir.path, self._cpu_seconds)
        self._saturation = Saturation(run_dir.path, settings.slots, self._shares.own)
        admit, refuse = partial(admission, self._nginx.bodies, added.authenticator), partial(refusal, settings)
        self._server = HealthServer(self._health, self._saturation, admit, refuse, added.probes, self._metrics)
        self._code_ready = asyncio.Event()
        self._server_was_up = False
        (run_dir.path / BATCHING_PARAMETERS).write_text(batching_parameters(settings))
        plan.write(start.plan_file)
        self._server_kind, program = commands.model_server_program(settings)
        self._engine_cache, self._not_kept = disk_cache.cache_folder(run_dir.path)
        self._code = CodeSetup(plan, start.plan_file, run_dir, environ)
        self._listeners: list[socket.socket] = []
        self._children = [self._nginx.child] if self._nginx.child else []
        for spec in added.children:
            front = [*commands.PYTHON, "lightbox.serving.front", spec.module, str(start.plan_file), *spec.arguments]
            self._children.append(self._worker_child(spec.name, front, spec.listens))
            self._health.watch_front(spec)
        gunicorn = commands.gunicorn_command(settings, start.plan_file, sidecar, run_dir, plan.most_requests(settings))
        self._children.append(self._worker_child("gunicorn", gunicorn, [sidecar]))
        self._watches: dict[str, ServerWatch] = {}
        self._gpus = gpu_names(environ)
        said = ModelServerLog(run_dir.path / "models", verbose=settings.gunicorn_loglevel == "debug")
        for address, watch in zip(plan.model_servers, self._health.servers, strict=True):
            name = "model_server" if settings.instance_count == 1 else f"model_server_{len(self._watches)}"
            in_progress = settings.slots * (1 + added.workers) + plan.concurrency
            flags = commands.model_server_flags(settings, address, run_dir.path, in_progress)
            if self._server_kind == "embedded":
                flags += commands.engine_flags(settings, run_dir.path, self._engine_cache)
            mark = secrets.token_hex(8) if self._server_kind == "embedded" else ""
            child = Child(name, program + flags, self._server_environ(environ, mark), edit=said.edit)
            child.mark = mark
            self._children.append(child)
            self._watches[name] = watch
        watched = [self._watched(child) for child in self._children]
        self._hangs = HangWatch(watched, settings.hang_seconds, self._count_hang)
        self._sockets = SocketFiles(run_dir.socket_path("any").parent)

    def _server_environ(self, environ: Mapping[str, str], mark: str) -> dict[str, str]:
        """Return the next model server's environment. Its temporary files go with the run's folder."""
        own = {RECORD_MARK: mark, "TMPDIR": str(self._start.run_dir.path)}
        return {**environ, **gpu_environ(len(self._watches), self._gpus), **own}

    def _watched(self, child: Child) -> Watched:
        """Return how a child is probed. nginx and gunicorn's master cannot be asked: they must only run."""
        if (watch := self._watches.get(child.name)) is not None:
            mark = self._plan.model_servers[list(self._watches).index(child.name)].silent_mark
            note = partial(self._note_silence, child.name, watch.note_silence, mark)
            return Watched(child, lambda _: watch.responded_at, self._settings.load_seconds, on_silence=note)
        if (front := self._health.fronts.get(child.name)) is not None:
            seconds = self._settings.load_seconds  # it imports the users' code
            mark = self._start.run_dir.path / f"{child.name}.silent"  # for nginx
            note = partial(self._note_silence, child.name, front.note_silence, mark)
            return Watched(child, lambda _: front.responded_at, seconds, on_silence=note)
        workers = runs if child.name == "nginx" else partial(last_beat, str(self._start.run_dir.path))
        return Watched(child, runs, workers=workers)

    @staticmethod
    def _note_silence(name: str, note: Callable[[bool], object], mark: Path, is_silent: bool) -> None:
        """Let workers, or nginx, refuse requests at once while a process is known not to answer."""
        note(is_silent)
        with suppress(OSError):  # a full disk
            if is_silent and not mark.exists():
                mark.touch()
                log(f"{name} does not answer: requests get 503 until it does")
            elif not is_silent:
                mark.unlink(missing_ok=True)

    def _count_hang(self, name: str) -> None:
        if self._metrics:
            self._metrics.hangs[name] += 1

    def _end_blocked(self, server: int) -> None:
        """End a model server that accepts no loads and unloads; ``_keep_running`` starts it again."""
        name = list(self._watches)[server]
        self._count_hang(name)
        self._child(name).kill()

    def _renew_fronts(self) -> None:
        """Let fronts close their connections gracefully: nginx's old workers would cut them at their end."""
        for spec in self._added.children:
            if spec.renew is not None:
                asyncio.get_running_loop().call_later(RENEWAL_SECONDS, self._child(spec.name).send, spec.renew)

    def _limit_lines(self) -> None:
        """Limit the lines that callers may cause; handlers, nginx's records and the debug level get more.

        Not during a start, in which a model server describes each signature of all models.
        """
        settings = self._settings
        many = partial(many_lines, kilobytes=settings.handler_log_kb, setting=settings.variable("handler_log_kb"))
        relay.limit_handlers(many("handlers"))
        is_wordy = settings.gunicorn_loglevel == "debug"
        has_handlers = not settings.has_fixed_models or any(map(find_inference, self._plan.all_code_dirs))
        for child in self._children:
            runs_handlers = has_handlers and child.name not in self._watches
            limit = many if is_wordy or runs_handlers or child.name == "nginx" else few_lines
            child.limit = limit(child.name).after(child.limit)
            if not is_wordy:
                child.record_limit = record_lines(child.name).after(child.record_limit)

    def _measure(self) -> dict[Metric, Measured]:
        dropped = sum(child.dropped for child in self._children) + self._nginx.refused.limit.dropped
        return {
            VERSION_NOT_SERVED: dict.fromkeys(self._versions.not_served(), 1),
            LOG_LINES_DROPPED: relay.dropped_lines() + dropped,
            **process_use({child.name: child.groups for child in self._children}),
            **self._shares.measure(),
            **self._added.measure(),
        }

    def _cpu_seconds(self) -> float:
        return sum(process_use({child.name: child.groups for child in self._children})[CPU].values())

    def _worker_child(self, name: str, command: Sequence[str], listens: Sequence[str]) -> Child:
        """Return a child that gets, for each address in its command at which it listens, a socket as ``fd://NUMBER``.

        It begins to listen when it can serve. From then on, connections wait while it is started again.
        """
        log = os.dup(2)  # the relay's: the workers' log lines are complete
        try:
            opened = {address: bind(address) for address in listens}
        except OSError as error:  # of the port, without nginx
            raise PortTaken(f"{name} cannot listen at {', '.join(listens)}: {error.strerror}") from None
        self._listeners += opened.values()
        names = {address: f"{INHERITED}{listener.fileno()}" for address, listener in opened.items()}
        return Child(
            name,
            [names.get(word, word) for word in command],
            worker_environ(self._code.environ) | {logs.DESCRIPTOR_VARIABLE: str(log)},
            # gunicorn puts its working directory on sys.path: use one without modules
            cwd=self._start.run_dir.path,
            keep_descriptors=(log, *(listener.fileno() for listener in opened.values())),
        )

    async def run(self) -> int:
        """Serve until a signal, or until a child cannot stay up; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:  # not the loop's own handlers: closing the loop would restore the defaults
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._on_signal))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        self._announce()
        async with await self._server.serve(self._health_address):
            children = [asyncio.create_task(self._keep_running(child)) for child in self._children]
            waits = [
                self._health.follow(),
                lasting(self._saturation.follow),
                lasting(self._shares.follow),
                self._serve(),
                lasting(self._reloads.follow),
                lasting(partial(self._hangs.follow, self._stopping)),
                lasting(partial(self._sockets.follow, self._stopping)),
                lasting(self._nginx.tls.follow),
                *self._added.tasks(),
            ]
            others = [asyncio.create_task(wait) for wait in (*waits, self._stopping.wait())]
            done, _ = await asyncio.wait(children + others, return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            failure = next((error for task in done if (error := task.exception())), None)
            await self._stop_children()
            await asyncio.wait(children, timeout=LAST_OUTPUT_SECONDS)
            for task in children + others:
                task.cancel()
            await asyncio.gather(*children, *others, return_exceptions=True)
            await asyncio.gather(*(status.close() for status in self._statuses))
        # The rest is short and must not be interrupted. Blocked signals would be delivered to gRPC's threads.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if failure is None:
            log("stopped")
            return 0
        if not isinstance(failure, ChildFailed):
            raise failure
        log(str(failure))
        return 1

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            log("second signal: killing the remaining processes")
            for child in (*self._code.children, *self._children):
                child.kill()
        self._health.draining = True
        self._stopping.set()

    def _announce(self) -> None:
        if self._added.served.note:
            log(f"{self._added.served.note} from {self._settings.model_dir}")
        else:
            log(f"models: {', '.join(self._plan.models)}; default: {self._plan.default_model}")
        workers = f"workers: {self._settings.workers} x {self._settings.threads} threads"
        log(f"model server: {self._server_kind}; transports: {', '.join(self._plan.transports.names)}; {workers}")
        if self._not_kept and self._server_kind == "embedded" and self._settings.engine != DEFAULT:
            log(f"facts about models are cached for this run only: {self._not_kept}")
        if len(self._gpus) > 1:
            log(f"GPUs: {', '.join(self._gpus)}; the model servers take them in turn, one each")
        if line := commands.worker_class_line(self._settings):
            log(line)
        ports = [(server.grpc_port, server.rest_port) for server in self._plan.model_servers]
        if self._nginx.tls.identity:
            log(str(self._nginx.tls.identity))
        log(f"listening: {' | '.join(listening(self._settings, self._plan.transports, ports, self._added.ports))}")
        log(callers_line(self._settings, self._added.ports, self._added.callers))
        if not self._settings.nginx:
            missing = ", ".join(f"no {name}" for name in (*WITHOUT_NGINX, *self._added.without_nginx))
            log(f"without nginx, for a first try: {missing}; {how_to_install()}")

    async def _serve(self) -> None:
        """Log readiness, or give up; then follow the versions of the models, forever."""
        started = time.monotonic()
        while self._health.problem() is not None:
            await asyncio.sleep(0.05)
            await self._versions.show_recovered()
            if self._settings.wait_seconds and time.monotonic() - started > self._settings.wait_seconds:
                raise ChildFailed(
                    f"SAGEMAKER_TFS_WAIT_TIME_SECONDS: not ready after {self._settings.wait_seconds:g} s: "
                    f"{self._health.problem()}"
                )
        self._server_was_up = True
        self._limit_lines()
        scheme = "https" if self._nginx.tls.identity else "http"
        address = f"{scheme}://localhost:{self._settings.port}"
        shown = "".join(f"; {name}: {address}{path}" for name, path in self._added.shown.items())
        log(f"ready after {time.monotonic() - started:.1f} s: {address}{self._added.direct[0]}{shown}")
        await self._versions.follow()

    async def _keep_running(self, child: Child) -> None:
        """Run a child until the stop, with growing times between starts; raise ChildFailed if it cannot run."""
        if child.name == "gunicorn":
            await self._prepare_code()
            self._code_ready.set()
        elif child.name in self._health.fronts:
            await self._code_ready.wait()
        pause, ends = FIRST_BACKOFF, 0
        child.on_end = partial(self._note_end, child)
        while True:
            started = time.monotonic()
            code = await lasting(partial(self._run, child))
            if self._stopping.is_set():
                return
            self._note_end(child)  # again: orphans may have answered since
            if child.name == "nginx":
                self._nginx.bodies.clear()
                self._renew_fronts()
            if self._metrics:
                self._metrics.restarts[child.name] += 1
            if time.monotonic() - started > STEADY_SECONDS:
                pause, ends = FIRST_BACKOFF, 0
            ends += 1
            if ends >= MOST_ENDS or self._refused_to_start(child, code):
                raise ChildFailed(self._failure_text(child, code))
            left = max(0.0, started + pause - time.monotonic())  # a child that served for a while is replaced at once
            log(f"{child.name} ended with {describe_exit(code)} and is started again in {left:.1g} s")
            await asyncio.sleep(left)
            pause = min(pause * 2, LONGEST_BACKOFF)

    async def _run(self, child: Child) -> int:
        """Run a child until it ends; return its exit code."""
        if child.name in self._watches:
            write_model_config(self._added.served.models(), self._start.run_dir.path)
        return await child.run()

    async def try_start(self) -> None:
        """Start as ``run`` does, but for the processes that callers reach, until the default model has answered.

        Raises ChildFailed, with the sentence that ``run`` ends with.
        """
        self._nginx.close_listeners()
        children = [child for child in self._children if child.name in (*self._watches, "gunicorn")]
        tasks = [asyncio.create_task(self._keep_running(child)) for child in children]
        followed = [*(server.follow() for server in self._health.servers), self._health.sidecar.follow()]
        waits = (self._until_answered(), self._hangs.follow(self._stopping), *followed)
        others = [asyncio.create_task(wait) for wait in waits]
        try:
            done, _ = await asyncio.wait(tasks + others, return_when=asyncio.FIRST_COMPLETED)
        finally:  # a signal cancels the wait, and the loop's end waits for the processes
            self._stopping.set()
            for child in (*self._code.children, *children):
                child.kill()
        await asyncio.wait(tasks, timeout=LAST_OUTPUT_SECONDS)
        for task in tasks + others:
            task.cancel()
        await asyncio.gather(*tasks, *others, return_exceptions=True)
        await asyncio.gather(*(status.close() for status in self._statuses))
        if failure := next((error for task in done if (error := task.exception())), None):
            raise failure

    async def _until_answered(self) -> None:
        """Return once the default model has answered; raise ChildFailed if it never will, or takes too long."""
        servers, sidecar = self._health.servers, self._health.sidecar
        await self._code_ready.wait()
        last = time.monotonic() + self._settings.load_seconds + self._settings.deadline_seconds
        while not any(server.available for server in servers) or sidecar.problem is not None:
            if sidecar.has_failed or time.monotonic() > last:
                raise ChildFailed(f"not ready: {self._health.problem()}")
            await asyncio.sleep(0.05)

    async def _prepare_code(self) -> None:
        """Prepare the user's code while the model server loads; raise ChildFailed if it cannot be used."""
        try:
            await self._code.run()
        except UserCodeError as error:
            raise ChildFailed(str(error)) from error

    def _note_end(self, child: Child) -> None:
        if child.name in self._watches:
            self._watches[child.name].lost("the model server has ended and is started again")
            if not self._stopping.is_set():
                self._versions.server_ended()
        elif child.name == "gunicorn":
            self._health.sidecar.ended()
        elif child.name in self._health.fronts:
            self._health.fronts[child.name].ended()

    def _refused_to_start(self, child: Child, code: int) -> bool:
        """Return whether a child refused to start, instead of failing later: then another try is useless."""
        return child.name in self._watches and not self._server_was_up and code > 0

    def _failure_text(self, child: Child, code: int) -> str:
        text = "\n".join(child.last_lines)
        ended = f"{child.name} cannot stay up: it ended with {describe_exit(code)}; its last lines:\n{text}"
        return unloadable(text, self._plan.models) or ended

    def close_listeners(self) -> None:
        """Close this process's copies of the sockets: once its children's are closed, callers are refused."""
        self._nginx.close_listeners()
        for listener in self._listeners:
            listener.close()

    async def _stop_children(self) -> None:
        """Stop in order: the processes that admit requests, the workers, the model servers."""
        self._health.draining = True
        self.close_listeners()
        log("stopping: accepted requests finish first")
        groups = [[child] for child in self._code.children]
        before = [spec.name for spec in self._added.children if not spec.behind]
        let_in = [child for child in self._children if child.name in (*before, "nginx")]
        groups.append(sorted(let_in, key=lambda child: child.name == "nginx"))  # nginx a moment after the others
        groups += [[child] for child in self._children if child not in let_in]
        deadline, last = time.monotonic() + self._settings.drain_seconds, self._settings.last_seconds
        for number, together in enumerate(groups, start=1):
            patience = deadline - last * (1 - number / len(groups)) - time.monotonic()
            renewing = asyncio.create_task(self._renew_behind())
            await asyncio.gather(*(child.stop(patience) for child in together))
            renewing.cancel()

    async def _renew_behind(self) -> None:
        """Let the streams that nginx would wait for end, also those that were opened a moment ago."""
        while True:
            for spec in self._added.children:
                if spec.behind and spec.renew is not None:
                    self._child(spec.name).send(spec.renew)
            await asyncio.sleep(LOOK_SECONDS)

    def _child(self, name: str) -> Child:
        return next(child for child in self._children if child.name == name)
