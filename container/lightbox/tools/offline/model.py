"""A model that is loaded into this process, and what it answers."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from lightbox.base.errors import HandlerFailed, LightboxError, StartError
from lightbox.base.machine.environment import variable
from lightbox.base.request_context import RequestContext
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import escape
from lightbox.codecs.base import Response
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.json_text import from_json
from lightbox.core.pipeline import Pipeline, PipelineOptions, Times
from lightbox.core.request import Body, Call
from lightbox.images.limits import ImageLimits
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import load_options
from lightbox.model.plan import ModelServerAddress, PlannedModels, ServingPlan
from lightbox.model_files.checks import newest_folder, show_versions, version_problem
from lightbox.model_files.layout import ModelOnDisk, version_numbers
from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines import AUTO, DEFAULT
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.server import flags
from lightbox.model_runtime.server import session_configuration as configuration
from lightbox.model_runtime.wire.status import StatusError
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.commands import engine_cache
from lightbox.supervisor.starting.models_on_disk import code_dirs, found_models, shared_code_dirs, unpacked
from lightbox.supervisor.starting.op_threads import choose
from lightbox.supervisor.starting.option_checks import option_problems
from lightbox.tools.offline.engine_transport import EngineTransport
from lightbox.tools.offline.rows import in_order, unwrapped
from lightbox.tools.offline.storage import MAX_BODY, Folder, refuse
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.aws_context import AwsContexts
from lightbox.user_code.aws_response import rest_response
from lightbox.user_code.paths import importable
from lightbox.user_code.registry import UserCode

Picture: TypeAlias = "bytes | str | PathLike[str] | Image.Image | npt.NDArray[np.uint8]"
"""The bytes of a file, its path, an image of Pillow, or pixels: uint8 [height, width, 3] in RGB or [height, width]."""
LIMITS = ("LIGHTBOX_MAX_IMAGE_PIXELS", MAX_BODY, "LIGHTBOX_LINKED_FOLDERS", "LIGHTBOX_MODEL_CODE")
"""The settings of the environment that count: errors name them."""
IMAGE, JSON = "application/x-image", "application/json"


def load(path: str | PathLike[str], *, threads: int | None = None, **options: Any) -> Model:
    """Load the model at ``path``: whatever LIGHTBOX_MODEL_DIR may name, if it holds one model.

    ``threads`` is how many cores of this machine it may use, for as many calls at the same time; all of them where it
    is left out. ``options`` are keys of ``lightbox.json`` and win over those of the model's own file. The engine is
    ``auto`` unless one of them says otherwise. Raises StartError with a sentence for a path without a model, for
    several models, for an option that does not fit, and for a model that cannot be loaded.
    """
    if threads is not None and threads < 1:
        raise StartError(f"threads: expected at least 1, got {threads}")
    environ = {"LIGHTBOX_MODEL_DIR": str(Path(path).absolute()), "LIGHTBOX_ENGINE": AUTO}
    environ |= {name: variable(name) for name in LIMITS}
    if options:
        environ["LIGHTBOX_OPTIONS"] = json.dumps(options)
    with ExitStack() as folders:
        settings = folders.enter_context(unpacked(load_settings(environ)))
        models = found_models(settings)
        if len(models) != 1:
            raise StartError(f"{path}: expected one model, got {', '.join(model.name for model in models)}")
        run_dir = Path(tempfile.mkdtemp(prefix="lightbox-load-"))
        folders.callback(shutil.rmtree, run_dir, ignore_errors=True)
        loaded = _load(models[0], settings, run_dir, threads)
        # Engines may read the model again, and user code its own files, as long as the model is used.
        weakref.finalize(loaded, folders.pop_all().close)
        return loaded


def _load(model: ModelOnDisk, settings: Settings, run_dir: Path, threads: int | None) -> Model:
    folders = code_dirs(model, shared_code_dirs(settings))
    problems = [*filter(None, [version_problem(newest_folder(model), model.name, 0, settings.linked_folders)])]
    if problems := problems or [misfit.sentence for misfit in option_problems(model, folders, settings)]:
        raise StartError("\n".join(map(escape, problems)))
    planned = PlannedModel(
        name=model.name,
        base_path=run_dir / model.name,
        options=load_options(folders, settings),
        code_dirs=importable(folders, settings),
    )
    show_versions(model, planned.base_path, folders)
    version = max(version_numbers(planned.base_path))
    user_code = UserCode()
    user_code.load([planned])
    handlers = user_code.of(planned)
    if isinstance(handlers, AwsHandlers) and handlers.handler is not None:
        raise StartError(
            f"{model.base_path}: its inference.py has handler(data, context), which calls a model server, and there is "
            "none: serve the model, or define input_handler and output_handler"
        )
    given = flags.parse(
        [
            f"--engine={settings.engine}",
            f"--engine_cache_dir={engine_cache(run_dir)[0]}",
            f"--tensorflow_intra_op_parallelism={1 if threads else choose(settings, [model]).for_server}",
        ]
    )
    chosen = {key: value for key in ("engine", "precision") if (value := getattr(planned.options, key, None))}
    opener = replace(configuration.engine(given, ("serve",)), options=chosen)
    if threads:
        opener = replace(opener, hardware=replace(opener.hardware, threads=threads, streams=threads))
    try:
        opened = opener.open(str(planned.base_path / str(version)))
    except StatusError as error:
        raise StartError(f"{model.base_path}: version {version} cannot be loaded: {error.message}") from error
    named = {choice.engine for choice in opened.choices.values()} or {chosen.get("engine") or settings.engine or AUTO}
    engine = ",".join(sorted(DEFAULT if name == AUTO else name for name in named))
    return Model(planned, version, engine, opened.runner, user_code, settings, threads)


def most_bytes() -> int:
    """Return the most bytes of a picture, which are those of a request to an endpoint. Raises StartError."""
    return load_settings({MAX_BODY: variable(MAX_BODY)}).max_body_mb << 20


class Model:
    """A loaded model. Any number of threads may use it at the same time.

    ``engine`` is what computes; of a model whose signatures have several, all of them.
    """

    reads = False

    def __init__(
        self,
        planned: PlannedModel,
        version: int,
        engine: str,
        runner: Runner,
        user_code: UserCode,
        settings: Settings,
        threads: int | None,
    ) -> None:
        self.name, self.version, self.engine = planned.name, version, engine
        self._transport = EngineTransport(self.name, {version: runner})
        self._threads = threads or available_cores()
        self._running, self._counting = 0, threading.Lock()
        self._most = settings.max_body_mb << 20
        self._pipeline = Pipeline(
            PlannedModels(ServingPlan(models={self.name: planned}, default_model=self.name, model_servers=())),
            {self._transport.name: self._transport},
            None if user_code.is_empty() else user_code,
            AwsContexts([ModelServerAddress(grpc_socket=Path())], [_NoServer()], 0, rest_response),
            PipelineOptions(
                CodecOptions(ImageLimits.of(settings.max_image_pixels), 1, settings.max_body_mb),
                Times(math.inf, math.inf),
            ),
            alone=lambda: threads is None and self._running <= 1,
        )

    def predict(self, image: Picture) -> Any:
        """Return what ``/invocations`` answers for an image, as ``predictions[0]`` has it.

        Where the model's ``inference.py`` answers otherwise, it is the document, text or bytes that it returns. Raises
        LightboxError, with the endpoint's ``code`` and sentence, and OSError for a path that cannot be read.
        """
        call = Call(self._content(image))
        self._count(1)
        try:
            response: Response = self._pipeline.run(call, RequestContext(math.inf))
        finally:
            self._count(-1)
        kind = response.content_type.partition(";")[0]
        if kind == JSON or kind.endswith("+json"):
            try:
                return unwrapped(from_json(response.body))
            except ValueError as error:  # user code may write it
                raise HandlerFailed(f"the response is of the type {kind}, and no JSON: {error}") from error
        return response.body.decode(errors="replace") if kind.startswith("text/") else response.body

    def predict_many(self, images: Iterable[Picture]) -> Iterator[Any]:
        """Yield for each image, in order, what ``predict`` returns, or the LightboxError or OSError that it raises.

        A thread for each core predicts, and as many images are read ahead as there are threads, twice. Images are not
        put together in batches: on CPUs a batch takes as much of the processor for each image as one alone.
        """
        return (answer for _, answer in self.answered(("", image) for image in images))

    def answered(self, pictures: Iterable[tuple[str, Picture | Exception]]) -> Iterator[tuple[str, Any]]:
        """Yield path and answer of each picture, in order, as ``predict_many``; an exception is its own answer."""
        return in_order(self._answered, pictures, self._threads)

    def predict_arrays(self, image: Picture) -> Mapping[str, npt.NDArray[Any]]:
        """Return the outputs by name, as the model has them. Raises as ``predict``; user code is not called."""
        content = self._content(image)
        context = RequestContext(math.inf)
        signature = self._pipeline.describe(None, None, context)
        model, _ = self._pipeline.served()
        call = content.parse(context).decode(signature, model.options)
        self._pipeline.rank_guard.check(signature, call.inputs)
        return self._pipeline.rank_guard.predict(
            self._transport, replace(call, outputs=model.options.outputs or ()), context
        )

    def _answered(self, picture: tuple[str, Picture | Exception]) -> tuple[str, Any]:
        path, image = picture
        if isinstance(image, Exception):
            return path, image
        try:
            return path, self.predict(image)
        except (LightboxError, OSError) as error:
            return path, error

    def _count(self, by: int) -> None:
        with self._counting:
            self._running += by

    def _content(self, image: Picture) -> Body:
        return Body(self._pipeline.codecs, _file(image, self._most), IMAGE, JSON)


class _NoServer:
    """Stands for the channel that handlers of AWS's API get."""

    def __getattr__(self, name: str) -> Any:
        raise HandlerFailed("context.channel: no model server runs where a model is loaded into a process")


def _file(image: Picture, most: int) -> bytes:
    """Return the bytes of a picture's file, at most ``most``: pixels as a PNG, which keeps them."""
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image) if len(image) <= most else refuse(most)
    if isinstance(image, str | PathLike):
        return Folder(Path()).read(os.fspath(image), most)
    pixels = image if isinstance(image, Image.Image) else Image.fromarray(image)
    written = BytesIO()
    pixels.save(written, "PNG", compress_level=0)
    return written.getvalue()
