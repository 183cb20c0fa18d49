"""Encoded images to the one input of a model that takes images."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import chain
from typing import ClassVar

import numpy as np
from typing_extensions import override

from lightbox.codecs.base import Parsed, Reader
from lightbox.codecs.media_type import ContentType
from lightbox.codecs.options import CodecOptions
from lightbox.core.errors import (
    DeadlineExceeded,
    ImageUndecodable,
    MalformedBody,
    ScalingMismatch,
    TooLarge,
    UnsupportedMediaType,
)
from lightbox.core.request_context import RequestContext
from lightbox.images.decode import (
    OriginalImages,
    decode_for_resize,
    decode_rgb,
    is_image,
    jpeg_agrees,
    open_image,
    sniff_format,
)
from lightbox.images.limits import MAX_PIXELS_SETTING
from lightbox.images.picture import Crop, Mode, Opener, Picture, Pixels, Size, as_png, cut, rows_of
from lightbox.images.resize import Filter, Resizer, Scaling, load_native
from lightbox.machine.cores import available_cores
from lightbox.model.casting import string_tensor
from lightbox.model.options import ModelOptions
from lightbox.model.spec import (
    Array,
    ImageInput,
    Method,
    ModelCall,
    SignatureSpec,
    image_input,
    scaling_problem,
)

Decode = Callable[..., Pixels]
"""``decode_rgb``, or what else takes its arguments."""


def decoding_at_once(cores: int, workers: int) -> int:
    """Return how many images each of the workers may decode at once: twice its share of the cores, at least 2.

    The second one goes on while the first waits for the interpreter or is preempted.
    """
    return max(2, math.ceil(2 * cores / workers))


class DecodeSlots:
    """Lets ``at_once`` threads through; the others wait, in the stage "wait", no longer than their request may take."""

    def __init__(self, at_once: int) -> None:
        self._free = threading.Semaphore(at_once)

    @contextmanager
    def take(self, context: RequestContext) -> Iterator[None]:
        """Hold a place. Raises DeadlineExceeded when the request's time passes before there is one."""
        if not self._free.acquire(blocking=False):
            with context.stage("wait"):
                found = self._free.acquire(timeout=max(0.0, context.remaining()))
            if not found:
                raise DeadlineExceeded(
                    f"the request's {context.allowed_seconds:g} s passed before its image could be decoded"
                )
        try:
            yield
        finally:
            self._free.release()


class ImageCodec:
    """Turns one or more encoded images into a batch, as signature and options want them.

    While a request is ``alone`` in this process, all cores resize its images.
    """

    def __init__(self, options: CodecOptions, alone: Callable[[], bool] = lambda: True) -> None:
        self._alone = alone
        self._limits = options.limits
        cores = available_cores()
        self._slots = DecodeSlots(decoding_at_once(cores, options.processes))
        native = load_native()
        self._resizer = Resizer(cores, native)
        # A resize by Pillow wants Pillow's image: what the other decoder saves, a copy would cost.
        self._decode: Decode = decode_for_resize if native and jpeg_agrees() else decode_rgb

    def originals(self, bodies: Callable[[], Sequence[bytes]], context: RequestContext) -> OriginalImages:
        """Return the images as the user's code sees them; nothing is decoded, and ``bodies`` not called, yet.

        They are decoded in turn with all others, and raise DeadlineExceeded as ``decode`` does.
        """
        return OriginalImages(
            bodies,
            self._limits,
            turn=partial(self._slots.take, context),
            one_of_batch=partial(_image_of_batch, context=context),
        )

    def decode(
        self, bodies: Sequence[bytes], signature: SignatureSpec, options: ModelOptions, context: RequestContext
    ) -> dict[str, Array]:
        """Return the model's input: pixels in its dtype, or the bytes as they came for a string tensor.

        Times the stages wait, decode and preprocess. Raises ImageUndecodable, TooLarge, MalformedBody when images
        of different sizes cannot be one batch, DeadlineExceeded when time runs out between two images, and
        UnsupportedMediaType when the model takes no image.
        """
        wanted = _wanted(signature)
        if wanted.encoded:
            return {wanted.name: self._encoded(bodies, wanted, context)}
        if len(bodies) * self._limits.max_pixels > self._limits.max_request_pixels:  # else they cannot be too many
            self.check(bodies, context)
        openers = [partial(self._open, body, context) for body in bodies]
        return {wanted.name: self._pixels(openers, wanted, options, context)}

    def decode_picture(
        self, picture: Picture, signature: SignatureSpec, options: ModelOptions, context: RequestContext
    ) -> dict[str, Array]:
        """Do what ``decode`` does with one picture; for a string tensor it is encoded. Raises as ``decode`` and it."""
        wanted = _wanted(signature)
        if wanted.encoded:
            return {wanted.name: self._encoded([self.encode(picture, context)], wanted, context)}
        return {wanted.name: self._pixels([partial(picture.open, context)], wanted, options, context)}

    def encode(self, picture: Picture, context: RequestContext) -> bytes:
        """Return a picture as a file, in turn with those who decode: as it came if it can be, else as PNG."""
        if picture.original is not None:
            return picture.original
        with self._slots.take(context):
            image = picture.open(context)
            with context.stage("preprocess"):
                return as_png(image)

    def part(self, body: bytes, crop: Crop | None) -> Picture:
        """Return a picture of a body, an encoded image, cut to ``crop``; it is decoded when it is opened."""

        def opened(context: RequestContext, mode: Mode = "RGB", fast_size: Size | None = None) -> Pixels:
            return cut(self._open(body, context, mode, fast_size if crop is None else None), crop)

        return Picture(opened, body if crop is None else None)

    def keep(
        self,
        body: bytes,
        context: RequestContext,
        check: Callable[[int, int], None],
        keep: Callable[[Size, Iterator[bytes | memoryview]], None],
    ) -> None:
        """Decode an encoded image and give its size and its RGBX rows to ``keep``.

        ``check`` gets width and height before. Raises as ``decode`` and they do.
        """
        check(*open_image(body, self._limits).size)
        with self._slots.take(context):
            image = self._open(body, context)
            keep(image.size, rows_of(image))

    def _open(self, body: bytes, context: RequestContext, mode: Mode = "RGB", fast_size: Size | None = None) -> Pixels:
        with context.stage("decode"):
            image = self._decode(body, self._limits, mode=mode, fast_size=fast_size)
        context.images.append((sniff_format(body) or "", image.width * image.height))
        return image

    def _encoded(self, bodies: Sequence[bytes], wanted: ImageInput, context: RequestContext) -> Array:
        """Check the headers only: decoding is the graph's part."""
        with context.stage("decode"):
            context.images.extend(self._headers(bodies, context))
        with context.stage("preprocess"):
            batch = string_tensor(bodies)
            return batch if wanted.batched or len(bodies) != 1 else batch.reshape(())

    def check_among(self, tensors: Iterable[Array], context: RequestContext, or_texts: bool = False) -> None:
        """Check the headers of whatever begins as an image among tensors of byte strings. Raises as ``decode``.

        With ``or_texts`` what begins as an image, and is none, is taken for a text.
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
        """Yield the format and the pixels of each image."""
        before = 0
        for index, body in enumerate(bodies):
            with (
                suppress(ImageUndecodable) if or_texts else nullcontext(),
                _image_of_batch(index, len(bodies), context),
            ):
                header = open_image(body, self._limits.after(before))
                before += (pixels := header.width * header.height)
                yield str(header.format), pixels

    def _pixels(
        self, openers: Sequence[Opener], wanted: ImageInput, options: ModelOptions, context: RequestContext
    ) -> Array:
        scaling, by = Scaling(options.scaling), Filter(options.resize)
        dtype = np.dtype(wanted.dtype)
        if problem := scaling_problem(scaling, wanted):
            raise ScalingMismatch(
                f"scaling: {problem}; set it to none in the model's code/lightbox.json or LIGHTBOX_SCALING"
            )
        fixed = _fixed_size(wanted, options)
        fast_size = fixed if options.fast_decode and by.averages else None
        batch: Array | None = None
        mode: Mode = "RGB" if wanted.channels == 3 else "L"
        for index, opened in enumerate(openers):
            with self._slots.take(context):
                with _image_of_batch(index, len(openers), context):
                    image = opened(mode, fast_size)
                with context.stage("preprocess"):
                    size = fixed or (wanted.width or image.width, wanted.height or image.height)
                    if batch is None:
                        self._check_batch(len(openers), size)
                        batch = np.empty((len(openers), size[1], size[0], wanted.channels), dtype)
                    if batch.shape[1:3] != (size[1], size[0]):
                        first = f"{batch.shape[2]}x{batch.shape[1]}"
                        raise MalformedBody(
                            f"image {index + 1} is {size[0]}x{size[1]} and the first {first}: "
                            "images of different sizes make a batch only for a fixed size; "
                            "set image_size in code/lightbox.json or LIGHTBOX_OPTIONS"
                        )
                    self._resizer.fill(image, scaling, batch[index], by, by_all_cores=self._alone())
                del image  # its memory is what the slots bound
        assert batch is not None, "a request holds at least one image"
        if wanted.channels_first:
            with context.stage("preprocess"):
                batch = np.ascontiguousarray(batch.transpose(0, 3, 1, 2))
        return batch if wanted.batched or len(batch) != 1 else batch[0]

    def _check_batch(self, count: int, size: tuple[int, int]) -> None:
        """A batch has as many pixels as one image may have; small files can be many and grow on resizing."""
        pixels = count * size[0] * size[1]
        if count > 1 and pixels > self._limits.max_pixels:
            raise TooLarge(
                f"{count} images of {size[0]}x{size[1]} are {pixels:,} pixels; "
                f"at most {self._limits.max_pixels:,} are accepted ({MAX_PIXELS_SETTING})"
            )


class ImageBodyCodec(Reader):
    """Reads a body that is one image."""

    media_types: ClassVar[tuple[str, ...]] = ("application/x-image", "image/*")
    of_images: ClassVar[bool] = True

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            return ModelCall(signature, self._images.decode([body], signature, options, context), images=(body,))

        return Parsed(decode)


@contextmanager
def _image_of_batch(index: int, count: int, context: RequestContext) -> Iterator[None]:
    """Name the image of a batch, or the field of a form, that fails, and stop when the request's time is over."""
    if index and context.remaining() <= 0:
        raise DeadlineExceeded(f"the request's {context.allowed_seconds:g} s passed after {index} of {count} images")
    try:
        yield
    except (ImageUndecodable, TooLarge) as error:
        names = [f"field {context.fields[index]!r}"] if context.fields else []
        names += [f"image {index + 1}"] if count > 1 else []
        raise type(error)(": ".join([", ".join(names), error.message] if names else [error.message])) from error


def _wanted(signature: SignatureSpec) -> ImageInput:
    """Return the input that takes images; raise UnsupportedMediaType where there is none."""
    wanted = image_input(signature)
    if wanted is None:
        raise UnsupportedMediaType(
            f"the signature {signature.name!r} of the model {signature.model!r} takes "
            f"{', '.join(map(str, signature.inputs.values()))}: none of these accepts an image; "
            "send application/json"
        )
    return wanted


def _fixed_size(wanted: ImageInput, options: ModelOptions) -> tuple[int, int] | None:
    """Width and height that every image gets: the signature's, else the option's; None for the image's own."""
    if options.image_size is None:
        return (wanted.width, wanted.height) if wanted.width and wanted.height else None
    return wanted.width or options.image_size[0], wanted.height or options.image_size[1]
