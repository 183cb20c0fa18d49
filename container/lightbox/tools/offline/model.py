"""A model that is loaded into this process, and what it answers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.base.settings import Settings
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.json_text import from_json
from lightbox.core.pipeline import Pipeline, PipelineOptions, Times
from lightbox.core.request import IMAGE, JSON, Call
from lightbox.model.catalogue import PlannedModel
from lightbox.model.plan import PlannedModels, ServingPlan
from lightbox.model.spec import ModelCall
from lightbox.model_runtime.cores import available_cores
from lightbox.tools.offline.engine_transport import EngineTransport
from lightbox.tools.offline.image_request import AnyImage, ImageBody, read_image
from lightbox.tools.offline.rows import JsonText, in_order
from lightbox.user_code.aws_context import AwsContexts
from lightbox.user_code.aws_response import rest_response
from lightbox.user_code.registry import UserCode


class Model:
    """A loaded model. Any number of threads may use it at the same time.

    ``engine`` is what computes; of a model whose signatures have several, all of them.
    """

    reads = False

    def __init__(
        self,
        planned: PlannedModel,
        transport: EngineTransport,
        user_code: UserCode,
        settings: Settings,
        threads: int | None,
    ) -> None:
        self.name, self.version, self.engine = planned.name, transport.version, transport.engine
        self._transport = transport
        self._threads = threads or available_cores()
        self._running, self._counting = 0, threading.Lock()
        self._most = settings.max_body_mb << 20
        self._pipeline = Pipeline(
            PlannedModels(ServingPlan(models={self.name: planned}, default_model=self.name, model_servers=())),
            {transport.name: transport},
            None if user_code.is_empty() else user_code,
            AwsContexts.without_server(rest_response),
            PipelineOptions(CodecOptions.of(settings), Times(math.inf, math.inf)),
            alone=lambda: threads is None and self._running <= 1,
        )

    def __repr__(self) -> str:
        return f"<lightbox.Model {self.name}, version {self.version}, engine {self.engine}>"

    def predict(self, image: AnyImage) -> Any:
        """Return what ``/invocations`` answers for an image, as ``predictions[0]`` has it: numbers, lists and dicts.

        An image is the bytes of a file, its path, an image of Pillow, or pixels: uint8 [height, width, 3] in RGB or
        [height, width]. Where the model's ``inference.py`` answers otherwise, it is the document, text or bytes that it
        returns. Raises LightboxError, with the endpoint's ``code`` and sentence, and OSError for a path that cannot be
        read.
        """
        content = self._predict(image)
        return from_json(content.text) if isinstance(content, JsonText) else content

    def predict_many(self, images: Iterable[AnyImage]) -> Iterator[Any]:
        """Yield for each image, in order, what ``predict`` returns, or the LightboxError or OSError that it raises.

        A thread for each core predicts, and as many images are read ahead as there are threads, twice. Images are not
        put together in batches: on CPUs a batch takes as much of the processor for each image as one alone.
        """
        pairs = in_order(partial(_with_path, self.predict), (("", image) for image in images), self._threads)
        return (response for _, response in pairs)

    def responses(self, images: Iterable[tuple[str, AnyImage | Exception]]) -> Iterator[tuple[str, Any]]:
        """Yield path and answer of each picture, in order, as ``rows`` takes them; an exception is its own answer."""
        return in_order(partial(_with_path, self._predict), images, self._threads)

    def predict_arrays(self, image: AnyImage) -> Mapping[str, npt.NDArray[Any]]:
        """Return the outputs by name, as the model has them. Raises as ``predict``; user code is not called."""
        context = RequestContext(math.inf)
        call = self._decoded(image, context)
        self._pipeline.rank_guard.check(call.signature, call.inputs)
        return self._pipeline.rank_guard.predict(self._transport, call, context)

    def inputs(self, image: AnyImage) -> Mapping[str, npt.NDArray[Any]]:
        """Return what the model gets for an image, by name. Raises as ``predict``; user code is not called."""
        return self._decoded(image, RequestContext(math.inf)).inputs

    def _decoded(self, image: AnyImage, context: RequestContext) -> ModelCall:
        signature = self._pipeline.describe(None, None, context)
        model, _ = self._pipeline.served()
        call = self._content(image).parse(context).decode(signature, model.options)
        return replace(call, outputs=model.options.outputs or ())

    def _predict(self, image: AnyImage) -> Any:
        """Return the prediction as ``JsonText``, or what user code answers."""
        call = Call(self._content(image))
        self._count(1)
        try:
            return self._pipeline.run(call, RequestContext(math.inf))
        finally:
            self._count(-1)

    def _count(self, by: int) -> None:
        with self._counting:
            self._running += by

    def _content(self, image: AnyImage) -> ImageBody:
        return ImageBody(self._pipeline.codecs, read_image(image, self._most), IMAGE, JSON)


def _with_path(predict: Callable[[AnyImage], Any], named: tuple[str, AnyImage | Exception]) -> tuple[str, Any]:
    path, image = named
    if isinstance(image, Exception):
        return path, image
    try:
        return path, predict(image)
    except (LightboxError, OSError) as error:
        return path, error
