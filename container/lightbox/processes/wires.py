"""Which wires there are to the model servers, and what listens where: no TCP port is open unless something needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lightbox.plan import Wires
from lightbox.processes.commands import BINARY, model_server_program
from lightbox.settings import Settings
from lightbox.settings_values import TransportName
from lightbox.user_code.loader import looks_like_aws
from lightbox.user_code.paths import find_inference

GRPC, REST = TransportName.GRPC, TransportName.REST
NO_SOCKET = "the path of TMPDIR is too long for a unix socket"


def choose_wires(settings: Settings, code_places: Iterable[Sequence[Path]], sockets_fit: bool) -> Wires:
    """Return the wires, and why each of the model server's TCP ports is open.

    ``code_places`` are the folders of each model's code. Raises ModelServerMissing.
    """
    named = settings.transports
    on_loopback = named is None and model_server_program(settings)[0] != BINARY
    names = named or ((GRPC, REST) if on_loopback else (GRPC,))
    handler = _aws_handler(code_places)
    both = None
    if handler is not None:
        both = f"{handler} has AWS's handlers, which are promised it"
    elif on_loopback:
        both = "LIGHTBOX_TRANSPORT is not set, and the embedded server binds loopback"
    elif settings.multi_model and len(names) > 1:
        both = "LIGHTBOX_TRANSPORT names both wires, and a model that is loaded later may have AWS's handlers"
    return Wires(
        names=names,
        why_grpc_port=both if sockets_fit else NO_SOCKET,
        why_rest_port=both or ("LIGHTBOX_TRANSPORT names rest" if REST in names else None),
    )


def _aws_handler(code_places: Iterable[Sequence[Path]]) -> Path | None:
    """Return the first ``inference.py`` with functions of AWS's API, None where there is none."""
    files = filter(None, (find_inference(folders) for folders in code_places))
    return next((file for file in dict.fromkeys(files) if _is_aws(file)), None)


def _is_aws(file: Path) -> bool:
    try:
        return looks_like_aws(file.read_bytes())
    except OSError:  # what is wrong with it is said where it is imported
        return False


def listening(settings: Settings, wires: Wires, ports: Sequence[tuple[int | None, int | None]]) -> list[str]:
    """Return a line for each thing that listens: where, what for and, for the model servers' ports, why.

    ``ports`` are each model server's for gRPC and for REST; those that are not open do not count.
    """
    lines = [f"port {settings.port} on all interfaces: HTTP for callers"]
    if settings.kserve_grpc_port is not None:
        lines.append(f"port {settings.kserve_grpc_port} on all interfaces: the Open Inference Protocol over gRPC")
    where = "all interfaces" if model_server_program(settings)[0] == BINARY else "loopback"
    for index, name, why in ((0, "gRPC", wires.why_grpc_port), (1, "REST", wires.why_rest_port)):
        if why is not None:
            numbers = ", ".join(str(pair[index]) for pair in ports)
            lines.append(f"port {numbers} on {where}: {name} of the model server; {why}")
    if wires.why_grpc_port == NO_SOCKET:
        return [*lines, f"free ports on loopback: the sidecar and /ping; {NO_SOCKET}"]
    return [*lines, "unix sockets: gRPC of the model server, the sidecar, /ping"]
