"""A model that is loaded into this process, and what it answers."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
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
import orjson
from PIL import Image

from lightbox.codecs.base import Response
from lightbox.codecs.options import CodecOptions
from lightbox.core.errors import LightboxError, StartError
from lightbox.core.pipeline import Pipeline, PipelineOptions
from lightbox.core.request import Body, Call
from lightbox.core.request_context import RequestContext
from lightbox.core.settings import Settings
from lightbox.engines import AUTO
from lightbox.images.limits import ImageLimits
from lightbox.model.catalogue import PlannedModel
from lightbox.model.checks import show_versions
from lightbox.model.layout import ModelOnDisk
from lightbox.model.options import load_options
from lightbox.model.plan import PlannedModels, ServingPlan
from lightbox.model_server import configuration, flags
from lightbox.offline.engine import EngineTransport
from lightbox.processes.commands import engine_cache
from lightbox.processes.models_on_disk import code_dirs, found_models, unpacked
from lightbox.processes.op_threads import choose
from lightbox.settings_loading import load_settings
from lightbox.tfs_wire.status import StatusError
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.registry import UserCode

Picture: TypeAlias = "bytes | str | PathLike[str] | Image.Image | npt.NDArray[np.uint8]"
"""The bytes of a file, its path, an image of Pillow, or pixels: uint8 [height, width, 3] in RGB or [height, width]."""
IMAGE, JSON = "application/x-image", "application/json"


def load(path: str | PathLike[str], **options: Any) -> Model:
    """Load the model at ``path``: whatever LIGHTBOX_MODEL_DIR may name, if it holds one model.

    ``options`` are keys of ``lightbox.json`` and win over those of the model's own file. The engine is ``auto`` unless
    one of them says otherwise. Raises StartError with a sentence for a path without a model, for several models, for an
    option that does not fit, and for a model that cannot be loaded.
    """
    environ = {"LIGHTBOX_MODEL_DIR": str(Path(path).absolute()), "LIGHTBOX_ENGINE": AUTO}
    if options:
        environ["LIGHTBOX_OPTIONS"] = json.dumps(options)
    with ExitStack() as folders:
        settings = folders.enter_context(unpacked(load_settings(environ)))
        models = found_models(settings)
        if len(models) != 1:
            raise StartError(f"{path}: expected one model, got {', '.join(model.name for model in models)}")
        run_dir = Path(tempfile.mkdtemp(prefix="lightbox-load-"))
        folders.callback(shutil.rmtree, run_dir, ignore_errors=True)
        loaded = _load(models[0], settings, run_dir)
        # Engines may read the model again, and user code its own files, as long as the model is used.
        weakref.finalize(loaded, folders.pop_all().close)
        return loaded


def _load(model: ModelOnDisk, settings: Settings, run_dir: Path) -> Model:
    folders = code_dirs(model, ())
    planned = PlannedModel(
        name=model.name,
        base_path=run_dir / model.name,
        options=load_options(folders, settings),
        code_dirs=tuple(folders),
    )
    show_versions(model, planned.base_path)
    version = max(int(folder.name) for folder in planned.base_path.iterdir())
    user_code = UserCode()
    user_code.load([planned])
    if isinstance(user_code.of(planned), AwsHandlers):
        raise StartError(f"{model.base_path}: its inference.py has AWS's handlers, which call a model server: serve it")
    given = flags.parse(
        [
            f"--engine={settings.engine}",
            f"--engine_cache_dir={engine_cache(run_dir)[0]}",
            f"--tensorflow_intra_op_parallelism={choose(settings, [model]).for_server}",
        ]
    )
    chosen = {key: value for key in ("engine", "precision") if (value := getattr(planned.options, key, None))}
    opener = replace(configuration.engine(given, ("serve",)), options=chosen)
    try:
        runner = opener.open(str(planned.base_path / str(version))).runner
    except StatusError as error:
        raise StartError(f"{model.base_path}: version {version} cannot be loaded: {error.message}") from error
    plan = ServingPlan(models={model.name: planned}, default_model=model.name, model_servers=())
    transport = EngineTransport(model.name, {version: runner})
    pipeline = Pipeline(
        PlannedModels(plan),
        {transport.name: transport},
        None if user_code.is_empty() else user_code,
        options=PipelineOptions(CodecOptions(ImageLimits.of(settings.max_image_pixels), 1, settings.max_body_mb)),
    )
    return Model(model.name, version, pipeline, transport)


class Model:
    """A loaded model. Any number of threads may use it at the same time."""

    def __init__(self, name: str, version: int, pipeline: Pipeline, transport: EngineTransport) -> None:
        self.name = name
        self.version = version
        self._pipeline = pipeline
        self._transport = transport

    def predict(self, image: Picture) -> Any:
        """Return what ``/invocations`` answers for an image, as ``predictions[0]`` has it.

        Raises LightboxError, with the endpoint's ``code`` and sentence, and OSError for a path that cannot be read.
        """
        return self._predictions(image)[0]

    def predict_many(self, images: Iterable[Picture]) -> Iterator[Any]:
        """Yield for each image, in order, what ``predict`` returns, or the LightboxError or OSError that it raises."""
        for image in images:
            try:
                yield self.predict(image)
            except (LightboxError, OSError) as error:
                yield error

    def predict_arrays(self, image: Picture) -> Mapping[str, npt.NDArray[Any]]:
        """Return the outputs by name, as the model has them. Raises as ``predict``."""
        content = self._content(image)
        context = RequestContext(math.inf)
        signature = self._pipeline.describe(None, None, context)
        model, _ = self._pipeline.served()
        call = content.parse(context).decode(signature, model.options)
        self._pipeline.rank_guard.check(signature, call.inputs)
        return self._pipeline.rank_guard.predict(
            self._transport, replace(call, outputs=model.options.outputs or ()), context
        )

    def _predictions(self, image: Picture) -> Any:
        response: Response = self._pipeline.run(Call(self._content(image)), RequestContext(math.inf))
        return orjson.loads(response.body)["predictions"]

    def _content(self, image: Picture) -> Body:
        return Body(self._pipeline.codecs, _file(image), IMAGE, JSON)


def _file(image: Picture) -> bytes:
    """Return the bytes of a picture's file: pixels as a PNG, which keeps them."""
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image)
    if isinstance(image, str | PathLike):
        return Path(image).read_bytes()
    pixels = image if isinstance(image, Image.Image) else Image.fromarray(image)
    written = BytesIO()
    pixels.save(written, "PNG", compress_level=0)
    return written.getvalue()
