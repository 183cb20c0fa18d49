"""The addresses of a start: ports that are checked and chosen, and the lines that report them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path

from lightbox.base.errors import PortTaken
from lightbox.base.run_dir import RunDir, port_is_free
from lightbox.base.settings import Settings
from lightbox.core.additions import Port, StartNeeds
from lightbox.model.plan import ModelServerAddress, Transports
from lightbox.supervisor.starting.chosen_transports import EMBEDDED, transports_to_come
from lightbox.supervisor.starting.commands import BINARY, model_server_program

GRPC_PORT, REST_PORT = 9000, 8501
"""The first model server's ports without SAGEMAKER_SAFE_PORT_RANGE, as in AWS's container."""
EPHEMERAL = 32768
"""First port that Linux may give to outgoing connections at any time."""


def listening(
    settings: Settings, transports: Transports, ports: Sequence[tuple[int | None, int | None]], added: Iterable[Port]
) -> list[str]:
    """Return a line for each listening socket: its address, purpose and, for the model servers' ports, reason.

    ``ports`` are each model server's for gRPC and REST; closed ones are skipped. ``added`` are those of the features.
    """
    there = "all interfaces" if settings.host is None else settings.host
    lines = [f"port {settings.port} on {there}: {'HTTPS' if settings.tls_cert else 'HTTP'} for callers"]
    if not settings.nginx:
        lines = [f"port {settings.port} on loopback: HTTP of the sidecar, without nginx"]
    over = " over TLS" if settings.tls_cert else ""
    lines += [f"port {port.number} on {there}: {port.purpose}{over}" for port in added]
    where = "all interfaces" if model_server_program(settings)[0] == BINARY else "loopback"
    for index, name, why in ((0, "gRPC", transports.why_grpc_port), (1, "REST", transports.why_rest_port)):
        if why is not None:
            numbers = ", ".join(str(pair[index]) for pair in ports)
            lines.append(f"port {numbers} on {where}: {name} of the model server; {why}")
    of_server = "gRPC and REST" if transports.rest_socket else "gRPC"
    return [*lines, f"unix sockets: {of_server} of the model server, the sidecar, /ping"]


def callers_line(settings: Settings, added: Iterable[Port], sentence: str | None) -> str:
    """Return who may call; ``sentence`` is a feature's. ``added`` are the ports of the features."""
    if sentence:
        return f"callers: {sentence}"
    ports = " or ".join(str(number) for number in (settings.port, *(port.number for port in added)))
    if not settings.nginx or (settings.host and ip_address(settings.host).is_loopback):
        return f"no keys are set: every user of this machine may use port {ports}"
    who = "every holder of a client certificate who" if settings.tls_client_ca else "everyone who"
    return f"no keys are set: {who} reaches port {ports} may use it (docs/keys.md)"


def choose_addresses(
    settings: Settings, run_dir: RunDir, transports: Transports, added: Iterable[Port] = ()
) -> tuple[ModelServerAddress, ...]:
    """Return addresses for each model server that no other process uses; ``added`` are the features' ports."""
    taken = set(_for_callers(settings, added))

    def choose(usual: int) -> int:
        if settings.safe_port_range:
            return usual
        # A service on the usual port does not stop the start: no caller relies on it.
        return next(port for port in range(usual, EPHEMERAL) if port not in taken and run_dir.claim(port))

    return tuple(
        ModelServerAddress(
            grpc_port=choose(grpc_port) if transports.why_grpc_port else None,
            rest_port=choose(rest_port) if transports.why_rest_port else None,
            grpc_socket=run_dir.socket_path(f"model_server_{index}"),
            local_socket=run_dir.socket_path(f"predict_{index}") if EMBEDDED & {*transports.names} else None,
            rest_socket=run_dir.socket_path(f"rest_{index}") if transports.rest_socket else None,
        )
        for index, (grpc_port, rest_port) in enumerate(usual_ports(settings))
    )


def usual_ports(settings: Settings) -> list[tuple[int, int]]:
    """Return the ports for gRPC and REST of each model server, if it needs them and they are free."""
    grpc_port, rest_port = (GRPC_PORT, REST_PORT)
    if settings.safe_port_range is not None:
        low, _ = settings.safe_port_range
        grpc_port, rest_port = low, low + 1
    return [(grpc_port + 2 * index, rest_port + 2 * index) for index in range(settings.instance_count)]


def check_port_range(settings: Settings, wants: StartNeeds) -> None:
    """Raise PortTaken, with a sentence for each port, if a model server could not listen on its port."""
    if settings.safe_port_range is None:
        return
    transports, callers = transports_to_come(settings, wants.why_rest), _for_callers(settings, wants.ports)
    whys = (("gRPC", transports.why_grpc_port), ("REST", transports.why_rest_port))
    problems = []
    for index, pair in enumerate(usual_ports(settings)):
        for port, (transport, why) in zip(pair, whys, strict=True):
            if why is None:
                continue
            what = f"SAGEMAKER_SAFE_PORT_RANGE: port {port}, for {transport} of model server {index}, is"
            if port in callers:
                problems.append(f"{what} also the value of {callers[port]}; choose another range or another port")
            elif not port_is_free(port):
                problems.append(f"{what} taken by another process")
    if problems:
        raise PortTaken("\n".join(problems))


def _for_callers(settings: Settings, added: Iterable[Port]) -> dict[int, str]:
    """Return the ports that are open to callers, with the names of their settings."""
    return {settings.port: settings.variable("port")} | {port.number: port.variable for port in added}


def check_port(settings: Settings) -> None:
    """Raise PortTaken if nginx could not listen."""
    _check_bindable(settings.variable("port"), settings.port, settings.host)


def check_added_ports(ports: Iterable[Port], host: str | None = None) -> None:
    """Raise PortTaken if a feature could not listen."""
    for port in ports:
        _check_bindable(port.variable, port.number, host)


def _check_bindable(setting: str, port: int, host: str | None) -> None:
    if port < 1024 and os.geteuid() != 0 and not _may_bind_low_ports():
        raise PortTaken(f"{setting}: port {port} needs root; use one from 1024 up")
    if not port_is_free(port, host):
        raise PortTaken(f"{setting}: port {port} is taken by another process")


def _may_bind_low_ports() -> bool:
    start = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    return start.exists() and int(start.read_text()) == 0
