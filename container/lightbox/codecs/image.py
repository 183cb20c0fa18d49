"""Encoded images as the one input of a model that takes images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from lightbox.base.errors import (
    DeadlineExceeded,
    ImageUndecodable,
    MalformedBody,
    OptionsMismatch,
    TooLarge,
    UnsupportedMediaType,
)
from lightbox.base.request_context import RequestContext, Turns
from lightbox.codecs.base import Parsed, Reader
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.image_memory import COUNTED, ImageMemory, busy
from lightbox.codecs.media_type import ContentType
from lightbox.images.decode import (
    OriginalImages,
    decode_for_resize,
    is_image,
    open_image,
    sniff_format,
)
from lightbox.images.jpeg import jpeg_agrees
from lightbox.images.lazy_image import Crop, LazyImage, Mode, Opened, Opener, Resized, Room, ToFit, as_png, cut, rows_of
from lightbox.images.limits import MAX_PIXELS_SETTING
from lightbox.images.preparation import (
    Filter,
    Fit,
    Fitting,
    Picture,
    PixelValues,
    Placed,
    Placement,
    Preparation,
    Scaling,
    Size,
)
from lightbox.images.resize import Resizer, load_native
from lightbox.model.casting import string_tensor
from lightbox.model.image_options import fixed_size, image_problems
from lightbox.model.options import ModelOptions
from lightbox.model.spec import (
    ONE_INPUT,
    Array,
    ImageInput,
    Method,
    ModelCall,
    SignatureSpec,
    refused_pixels,
)
from lightbox.model_runtime.cores import available_cores

GRAPH_BYTES_PER_PIXEL = 4
"""Memory for an image that the model's graph decodes."""
_DRAWN_BYTES_PER_PIXEL = 12
"""Memory for an image that a response shows: its pixels, a copy, and the mask of an object."""
_MAP_BYTES_PER_PIXEL = 20
"""Memory for a map of an image: float32, and as much for what is added up to it."""


def decoding_at_once(cores: int, workers: int) -> int:
    """Return how many images each worker may decode at once: twice its share of the cores, at least 2.

    The second one continues while the first waits for the interpreter or is preempted.
    """
    return max(2, math.ceil(2 * cores / workers))


class DecodeSlots:
    """Admits ``at_once`` threads; the others wait in the stage "wait", each until its request's deadline.

    A slot ends with the memory of its images.
    """

    def __init__(self, at_once: int, memory: ImageMemory | None = None) -> None:
        self._turns = Turns(at_once)
        self.memory = memory or ImageMemory()

    def take(self, context: RequestContext) -> AbstractContextManager[None]:
        """Hold a slot in the block.

        Raises DeadlineExceeded at the request's deadline, and Unavailable while memory is short.
        """
        return _Slot(self, context)

    def begin(self, context: RequestContext) -> None:
        """Wait for a slot. Raises as ``take``."""
        if not self._turns.acquire(0):
            with context.stage("wait"):
                found = self._turns.acquire(context.remaining() / (2 if self.memory.waiting else 1))
            if not found:
                if self.memory.waiting:
                    raise busy()
                raise DeadlineExceeded(
                    f"the request's {context.allowed_seconds:g} s passed before its image could be decoded"
                )

    def end(self, context: RequestContext) -> None:
        """Give a slot back."""
        context.image_memory.close()
        self._turns.release()

    def hold(self, context: RequestContext, held: ExitStack, size: int) -> None:
        """Hold the memory of an image, instead of what ``held`` holds. Raises as ImageMemory."""
        held.close()
        if size > COUNTED:
            held.enter_context(self.memory.hold(size, context))


class _Slot(AbstractContextManager[None]):
    """See ``DecodeSlots.take``."""

    def __init__(self, slots: DecodeSlots, context: RequestContext) -> None:
        self._slots = slots
        self._context = context

    @override
    def __enter__(self) -> None:
        self._slots.begin(self._context)

    @override
    def __exit__(self, *_: object) -> None:
        self._slots.end(self._context)


class ImageCodec:
    """Turns one or more encoded images into a batch for a signature, as the model's options say.

    While this process works on one request (``alone``), all cores resize its images.
    """

    def __init__(self, options: CodecOptions, alone: Callable[[], bool] = lambda: True) -> None:
        self._alone = alone
        self._limits = options.limits
        cores = available_cores()
        memory = ImageMemory(options.image_memory, options.run_dir)
        self._slots = DecodeSlots(decoding_at_once(cores, options.processes), memory)
        native = load_native()
        self._resizer = Resizer(cores, native)
        # Pillow resizes Pillow's own images only: a copy would cost the time that the other decoder saves.
        self._decode = partial(decode_for_resize, to_pillow=not (native and jpeg_agrees()))

    def originals(self, bodies: Callable[[], Sequence[bytes]], context: RequestContext) -> OriginalImages:
        """Return the images for user code; ``bodies`` is called, and images are decoded, on first use.

        Decoding takes a slot, and raises DeadlineExceeded as ``decode`` does.
        """
        return OriginalImages(
            bodies,
            self._limits,
            turn=partial(self._slots.take, context),
            one_of_batch=partial(_ImageOfBatch, context=context),
            hold=partial(self._slots.hold, context, context.memory.image_memory),
        )

    def decode(
        self, bodies: Sequence[bytes], signature: SignatureSpec, options: ModelOptions, context: RequestContext
    ) -> ModelCall:
        """Return the call of a model: pixels in its dtype, or the unchanged bytes for a string tensor.

        Times the stages wait, decode and preprocess. Raises ImageUndecodable, TooLarge, MalformedBody for images of
        different sizes that cannot be one batch, DeadlineExceeded between two images, UnsupportedMediaType for a model
        without an image input, and OptionsMismatch for options that do not fit its input.
        """
        expected = _wanted(signature)
        if expected.encoded:
            encoded = self._encoded(bodies, expected, context)
            return ModelCall(signature, {expected.name: encoded}, images=tuple(bodies))
        if len(bodies) * self._limits.max_pixels > self._limits.max_request_pixels:  # else they have few enough
            self.check(bodies, context)
        openers = [partial(self._open, body, context) for body in bodies]
        return self._pixels(openers, signature, expected, options, context, tuple(bodies))

    def decode_lazy(
        self, image: LazyImage, signature: SignatureSpec, options: ModelOptions, context: RequestContext
    ) -> ModelCall:
        """As ``decode``, for one image; a string tensor gets it encoded. Raises as ``decode`` and ``LazyImage`` do."""
        wanted = _wanted(signature)
        if wanted.encoded:
            return ModelCall(signature, {wanted.name: self._encoded([self.encode(image, context)], wanted, context)})
        return self._pixels([partial(image.open, context)], signature, wanted, options, context)

    def encode(self, lazy: LazyImage, context: RequestContext) -> bytes:
        """Return an image as a file, in a decoding slot: the original file if possible, else PNG."""
        if lazy.original is not None:
            return lazy.original
        with self._slots.take(context):
            image = lazy.open(context).pixels
            with context.stage("preprocess"):
                return as_png(image)

    def part(self, body: bytes, crop: Crop | None) -> LazyImage:
        """Return the ``LazyImage`` of an encoded image, cut to ``crop``; it is decoded when it is opened."""

        def opened(context: RequestContext, mode: Mode = "RGB", resized: Resized | None = None) -> Opened:
            if crop is None:
                return self._open(body, context, mode, resized)
            return cut(self._open(body, context, mode).pixels, crop)

        return LazyImage(opened, body if crop is None else None)

    def keep(
        self,
        body: bytes,
        context: RequestContext,
        check: Callable[[int, int], None],
        keep: Callable[[Size, Iterator[bytes | memoryview]], None],
    ) -> None:
        """Decode an encoded image and pass its size and its RGBX rows to ``keep``.

        ``check`` gets width and height first. Raises as ``decode``, ``check`` and ``keep`` do.
        """
        check(*open_image(body, self._limits).size)
        with self._slots.take(context):
            image = self._open(body, context).pixels
            keep(image.size, rows_of(image))

    def _open(self, body: bytes, context: RequestContext, mode: Mode = "RGB", resized: Resized | None = None) -> Opened:
        room = Room(self._slots.memory.size, partial(self._slots.hold, context, context.image_memory))
        with context.stage("decode"):
            found = self._decode(body, self._limits, mode=mode, resized=resized, room=room)
        context.images.append((sniff_format(body) or "", found.pixels.width * found.pixels.height))
        return found

    def _encoded(self, bodies: Sequence[bytes], expected: ImageInput, context: RequestContext) -> Array:
        """Check the headers only: the graph decodes."""
        with context.stage("decode"):
            context.images.extend(self._headers(bodies, context))
        largest = max((pixels for _, pixels in context.images), default=0)
        self._slots.hold(context, context.memory.image_memory, GRAPH_BYTES_PER_PIXEL * largest)
        with context.stage("preprocess"):
            batch = string_tensor(bodies)
            return batch if expected.batched or len(bodies) != 1 else batch.reshape(())

    def check_among(self, tensors: Iterable[Array], context: RequestContext, or_texts: bool = False) -> None:
        """Check the headers of all byte strings that begin like an image. Raises as ``decode``.

        With ``or_texts`` a string that begins like an image and is none counts as text.
        """
        elements = chain.from_iterable(tensor.ravel().tolist() for tensor in tensors if tensor.dtype.hasobject)
        self.check(list(filter(is_image, elements)), context, or_texts)

    def check(self, bodies: Sequence[bytes], context: RequestContext, or_texts: bool = False) -> None:
        """Check the headers of the images of a request. Raises as ``decode``; ``or_texts`` as in ``check_among``."""
        for _ in self._headers(bodies, context, or_texts):
            pass

    def _headers(
        self, bodies: Sequence[bytes], context: RequestContext, or_texts: bool = False
    ) -> Iterator[tuple[str, int]]:
        """Yield the format and the number of pixels of each image."""
        before = 0
        for index, body in enumerate(bodies):
            with (
                suppress(ImageUndecodable) if or_texts else nullcontext(),
                _ImageOfBatch(index, len(bodies), context),
            ):
                header = open_image(body, self._limits.after(before))
                before += (pixels := header.width * header.height)
                yield str(header.format), pixels

    def _pixels(
        self,
        openers: Sequence[Opener],
        signature: SignatureSpec,
        expected: ImageInput,
        options: ModelOptions,
        context: RequestContext,
        images: tuple[bytes, ...] = (),
    ) -> ModelCall:
        plan = _plan(options, expected)
        batch: Array | None = None
        rows: Array | None = None
        placed, picture, shown = [], None, 0
        keeps = context.keeps_picture and len(openers) == 1
        mode: Mode = "RGB" if expected.channels == 3 else "L"
        for index, opened in enumerate(openers):
            with self._slots.take(context):
                with _ImageOfBatch(index, len(openers), context):
                    image, size, origin, whole = opened(mode, None if keeps else plan.resized)
                    target = plan.size or (expected.width or size[0], expected.height or size[1])
                    fitting = plan.preparation.fitting
                    if plan.size is None and fitting.fit is Fit.CROP:
                        target = (placement := fitting.uncut(size)).size
                    elif options.stride is not None and len(openers) == 1:
                        target, placement = fitting.padded(size, target, options.stride)
                    else:
                        placement = plan.placement or fitting.place(size, target)
                    self._check_whole(size, placement.size)
                with context.stage("preprocess"):
                    if batch is None or rows is None:
                        self._check_batch(len(openers), target)
                        batch, rows = _empty(len(openers), target, expected)
                    if rows.shape[1:3] != (target[1], target[0]):
                        first = f"{rows.shape[2]}x{rows.shape[1]}"
                        raise MalformedBody(
                            f"image {index + 1} is {target[0]}x{target[1]} and the first {first}: "
                            "images of different sizes make a batch only for a fixed size; "
                            "set image_size in code/lightbox.json or LIGHTBOX_OPTIONS"
                        )
                    self._resizer.fill(image, rows[index], plan.preparation, placement, by_all_cores=self._alone())
                    back = (
                        fitting.way_back(size, plan.size or target, placement) if fitting.fit is Fit.LETTERBOX else None
                    )
                    placed.append(Placed(size, placement, origin, whole, back))
                if keeps or options.map is not None:
                    per_pixel = _DRAWN_BYTES_PER_PIXEL * keeps + _MAP_BYTES_PER_PIXEL * (options.map is not None)
                    shown += size[0] * size[1]
                    context.image_memory.close()
                    self._slots.hold(context, context.memory.image_memory, per_pixel * shown)
                    picture = Picture(image, size, origin) if keeps else None
                del image  # the slots bound its memory
        assert batch is not None, "a request holds at least one image"
        tensor = batch if expected.batched or len(batch) != 1 else batch[0]
        return ModelCall(signature, {expected.name: tensor}, images=images, placed=tuple(placed), picture=picture)

    def _check_whole(self, size: Size, whole: Size) -> None:
        """Refuse an image whose resized form, before its middle is cut out, exceeds the limit of one image."""
        if whole[0] * whole[1] > max(self._limits.max_pixels, size[0] * size[1]):
            raise TooLarge(
                f"an image of {size[0]}x{size[1]} is resized to {whole[0]}x{whole[1]} before its middle is cut out; "
                f"at most {self._limits.max_pixels:,} pixels are accepted ({MAX_PIXELS_SETTING})"
            )

    def _check_batch(self, count: int, size: tuple[int, int]) -> None:
        """Limit a batch to the pixels of one image: small files may be many, and grow when resized."""
        pixels = count * size[0] * size[1]
        if count > 1 and pixels > self._limits.max_pixels:
            raise TooLarge(
                f"{count} images of {size[0]}x{size[1]} are {pixels:,} pixels; "
                f"at most {self._limits.max_pixels:,} are accepted ({MAX_PIXELS_SETTING})"
            )


class ImageBodyCodec(Reader):
    """Reads a body that is a single image."""

    media_types: ClassVar[tuple[str, ...]] = ("application/x-image", "image/*")
    of_images: ClassVar[bool] = True

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            return self._images.decode([body], signature, options, context)

        return Parsed(decode)


class _ImageOfBatch(AbstractContextManager[None]):
    """Names the failing image of a batch, or its form field, and stops at the request's deadline."""

    def __init__(self, index: int, count: int, context: RequestContext) -> None:
        self._index = index
        self._count = count
        self._context = context

    @override
    def __enter__(self) -> None:
        index, count, context = self._index, self._count, self._context
        if index and context.remaining() <= 0:
            seconds = context.allowed_seconds
            raise DeadlineExceeded(f"the request's {seconds:g} s passed after {index} of {count} images")

    @override
    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ImageUndecodable | TooLarge):
            fields = self._context.fields
            names = [f"field {fields[self._index]!r}"] if fields else []
            names += [f"image {self._index + 1}"] if self._count > 1 else []
            raise type(error)(": ".join([", ".join(names), error.message] if names else [error.message])) from error


def _wanted(signature: SignatureSpec) -> ImageInput:
    """Return the input that takes images; raise UnsupportedMediaType if there is none."""
    image = signature.image
    if image is None:
        why = refused_pixels(signature) or (ONE_INPUT if len(signature.inputs) > 1 else "send application/json")
        raise UnsupportedMediaType(
            f"the signature {signature.name!r} of the model {signature.model!r} takes "
            f"{', '.join(map(str, signature.inputs.values()))}: none of these accepts an image; "
            f"{why}{', or set layout in code/lightbox.json' if signature.open_input else ''}"
        )
    return image


@dataclass(frozen=True)
class _Plan:
    """The common steps for all images of a model; ``size`` is the input's fixed size, if any."""

    preparation: Preparation
    size: Size | None
    placement: Placement | None
    """Place of each image in the input; None if the shape determines it."""
    resized: Resized | None
    """The later size of images that may be decoded at reduced scale; None without such decoding."""


def _returns(options: ModelOptions) -> Literal["ratio", "sides", "unrounded"]:
    """Return how places return from a letterbox. ModelAPI has the outputs of Ultralytics, and pixels of OpenVINO."""
    if options.detections == "ultralytics-v5":
        return "unrounded"
    is_ultralytics = (options.detections or "").startswith("ultralytics") and options.resize == "opencv_bilinear"
    return "sides" if is_ultralytics else "ratio"


@lru_cache(maxsize=1000)
def _plan(options: ModelOptions, expected: ImageInput) -> _Plan:
    """Return how a model's options prepare images. Raises OptionsMismatch if they do not fit its input."""
    for key, problem in image_problems(options, expected):
        variable = "LIGHTBOX_SCALING" if key == "scaling" else "LIGHTBOX_OPTIONS"
        raise OptionsMismatch(f"{key}: {problem}; change it in the model's code/lightbox.json or {variable}")
    cut = (options.resize_shorter, options.crop_pct or 1.0, options.crop_offset == "lower")
    fitting = Fitting(
        Fit(options.fit),
        *cut,
        pads_end=options.pad_at == "end",
        longer=options.resize_longer,
        rounds_down=options.rounding == "lower",
        multiple=options.stride or 1,
        returns=_returns(options),
    )
    is_bgr = options.channels == "bgr" or options.scaling == "caffe"
    values = PixelValues(Scaling(options.scaling), options.mean, options.std, is_bgr)
    pad = options.pad if isinstance(options.pad, tuple) else (options.pad or 0,)
    preparation = Preparation(Filter(options.resize), fitting, values, pad)
    size = fixed_size(expected, options)
    if size is None:
        return _Plan(preparation, None, None, None)
    resized: Resized | None = None
    if preparation.by.averages:
        resized = lambda source: fitting.place(source, size).size  # noqa: E731
        resized = resized if options.fast_decode else ToFit(resized)
    return _Plan(preparation, size, Placement(size) if fitting.fit is Fit.STRETCH else None, resized)


def _empty(count: int, size: Size, expected: ImageInput) -> tuple[Array, Array]:
    """Return an empty batch for images of one size, and a view of it as [batch, height, width, channels]."""
    dtype = np.dtype(expected.dtype)
    if not expected.channels_first:
        batch = np.empty((count, size[1], size[0], expected.channels), dtype)
        return batch, batch
    batch = np.empty((count, expected.channels, size[1], size[0]), dtype)
    return batch, batch.transpose(0, 2, 3, 1)
