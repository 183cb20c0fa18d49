"""REST, gRPC, local or inside: the transports to the model servers, and the reason for each open TCP port."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings
from lightbox.base.settings_types import TransportName
from lightbox.model.plan import Transports
from lightbox.model_files.layout import ModelLayoutError, ModelOnDisk
from lightbox.model_runtime.access import MOST_TEXT, read_file
from lightbox.supervisor.starting.commands import BINARY, model_server_program
from lightbox.supervisor.starting.models_on_disk import code_dirs, found_models, shared_code_dirs
from lightbox.user_code.api_detection import looks_like_aws
from lightbox.user_code.paths import find_inference

INSIDE, LOCAL, GRPC, REST = TransportName
EMBEDDED = {INSIDE, LOCAL}
"""Those of the embedded model server alone."""


def choose_transports(
    settings: Settings, code_places: Iterable[Sequence[Path]], why_rest: str | None = None
) -> Transports:
    """Return the transports, and the reason for each open TCP port of the model server.

    ``code_places`` are the folders of each model's code; ``why_rest`` is a feature's reason for REST, for which the
    embedded server has a unix socket. Raises ModelServerMissing and TransportRefused.
    """
    named, usual = settings.transports, usual_transports(settings)
    names = named or usual
    embedded = LOCAL in usual
    if (own := [name for name in names if name in EMBEDDED]) and not embedded:
        raise TransportRefused(
            f"LIGHTBOX_TRANSPORT: expected {' or '.join(usual)}, got {own[0]}: the embedded model server alone has it"
        )
    if INSIDE in names and not settings.has_fixed_models:
        raise TransportRefused(
            f"LIGHTBOX_TRANSPORT: expected {', '.join(usual)}, got inside: it is for models that stay"
        )
    handler = _aws_handler(code_places)
    both = None
    if handler is not None:
        both = f"{handler} has AWS's handlers, whose context has it"
    elif not settings.has_fixed_models and settings.model_code and {GRPC, REST} <= set(names):
        both = "a model that is loaded later may have AWS's handlers, and LIGHTBOX_TRANSPORT "
        both += "names grpc and rest" if named else "is not set"
    if named and REST in named:
        why_port: str | None = "LIGHTBOX_TRANSPORT names rest"
    else:
        why_port = None if embedded else why_rest
    return Transports(
        names=names,
        why_grpc_port=both,
        why_rest_port=both or why_port,
        rest_socket=embedded and (REST in names or why_rest is not None),
    )


def usual_transports(settings: Settings) -> tuple[TransportName, ...]:
    """Return the default transports. Raises ModelServerMissing."""
    return (GRPC,) if model_server_program(settings)[0] == BINARY else (LOCAL, GRPC, REST)


def _aws_handler(code_places: Iterable[Sequence[Path]]) -> Path | None:
    """Return the first ``inference.py`` with functions of AWS's API, None if there is none."""
    files = filter(None, (find_inference(folders) for folders in code_places))
    return next((file for file in dict.fromkeys(files) if _is_aws(file)), None)


def _is_aws(file: Path) -> bool:
    try:
        return looks_like_aws(read_file(file, MOST_TEXT))
    except OSError:  # the import reports it
        return False


class TransportRefused(StartError):
    """The settings name a transport where it is not available; the message says why."""


def planned_transports(
    settings: Settings, models: Iterable[ModelOnDisk], shared: Sequence[Path], why_rest: str | None
) -> Transports:
    """Return the transports of a start, and the reasons for open ports. Raises ModelServerMissing.

    In multi-model mode the code of models on disk that may be loaded later counts too.
    """
    own = (code_dirs(model, shared) for model in models)
    if not settings.has_fixed_models and settings.model_code:
        own = ([folder] for pattern in ("*/code", "*/*/code") for folder in settings.model_dir.glob(pattern))
    return choose_transports(settings, itertools.chain([shared], own), why_rest)


def transports_to_come(settings: Settings, why_rest: str | None = None) -> Transports:
    """Return the transports, as far as they are known without code from S3. Raises ModelServerMissing."""
    models: list[ModelOnDisk] = []
    if settings.has_fixed_models:
        with suppress(ModelLayoutError):
            models = found_models(settings)
    return planned_transports(settings, models, shared_code_dirs(settings), why_rest)
