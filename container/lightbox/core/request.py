"""A request of any protocol: a call whose content is a body of some media type, or tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from lightbox.base.error_texts import echo
from lightbox.base.errors import BadRequest, InputMismatch
from lightbox.base.request_context import Header, RequestContext
from lightbox.codecs import Codecs, check_single
from lightbox.codecs.base import Parsed, Response
from lightbox.codecs.base import Writer as BodyCodec
from lightbox.core.attributes import CROP, CustomAttributes
from lightbox.images.decode import is_image
from lightbox.images.lazy_image import Crop, LazyImage
from lightbox.model.casting import string_tensor
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, Method, ModelCall, Prediction, SignatureSpec
from lightbox.user_code.api_detection import Function
from lightbox.user_code.handlers import RESPONSE_OUTPUT, Request, finish, finish_tensors

R = TypeVar("R")
S = TypeVar("S")
FindSignature = Callable[[], SignatureSpec]
"""Looks up the signature of a call, or the default one. Raises as Transport.signature does."""
IMAGE, JSON = "application/x-image", "application/json"


class Writer(ABC, Generic[R]):
    """Writes the response to one call in the form of its protocol."""

    @property
    def needs_names(self) -> bool:
        """Whether it writes classes or objects alone, with boxes in pixels of images."""
        return False

    @property
    def draws(self) -> bool:
        """Whether it needs the image."""
        return False

    @property
    def places_maps(self) -> bool:
        """Whether it writes maps in the size of the image, in place of the model's output."""
        return False

    @abstractmethod
    def check(self, outputs: int) -> None:
        """Raise NotAcceptable if the response cannot hold this number of outputs."""

    @abstractmethod
    def write(self, prediction: Prediction, signature: SignatureSpec) -> R:
        """Return the response with the model's outputs."""

    @abstractmethod
    def finish(
        self, postprocess: Function, outputs: Mapping[str, Array], shown: Request, signature: SignatureSpec
    ) -> R:
        """Return the response for the result of the user's postprocess."""


class Content(ABC, Generic[R]):
    """The payload of a request and the form of its response, ``R``."""

    codecs: Codecs
    outputs: tuple[str, ...]
    """The outputs that the request names; empty for the default ones of the model's options."""

    @abstractmethod
    def size(self, context: RequestContext) -> int:
        """Return the bytes of memory that the content takes until the model has answered."""

    @abstractmethod
    def parse(self, context: RequestContext) -> Parsed:
        """Parse as far as possible without a signature. Raises UnsupportedMediaType, MalformedBody."""

    @abstractmethod
    def writer(self, by_user_code: bool, has_names: bool) -> Writer[R]:
        """Return the writer of the response; raise NotAcceptable if there is none, unless user code writes it.

        Without ``has_names`` the response has no classes or objects by name.
        """

    @abstractmethod
    def has_images(self, signature: SignatureSpec) -> bool:
        """Return whether the user's preprocess makes the inputs."""

    @abstractmethod
    def names_outputs_of(self, signature: SignatureSpec) -> bool:
        """Return whether the request names outputs of the model itself; these bypass the user's postprocess."""

    @abstractmethod
    def shown(self, call: Call[Any], request: ModelCall, options: ModelOptions, context: RequestContext) -> Request:
        """Return the request as the Lightbox handler API presents it."""

    @abstractmethod
    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Body] | None:
        """Return the bodies for a handler of AWS's API, one call for each; None if it does not apply."""

    @abstractmethod
    def joined(self, responses: Sequence[Response], find: FindSignature) -> R:
        """Return one response that joins a handler's responses to these bodies."""


@dataclass(frozen=True)
class Call(Generic[R]):
    """One request. None means the configured default; ``outputs`` are the names of the wanted outputs."""

    content: Content[R]
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    transport: str | None = None
    outputs: tuple[str, ...] = ()
    attributes: CustomAttributes = field(default_factory=CustomAttributes)

    def carrying(self, content: Content[S]) -> Call[S]:
        """Return the same call with another content and all outputs."""
        return Call(content, self.model, self.version, self.signature, self.transport, attributes=self.attributes)


Respond = Callable[[Call[Response], RequestContext], Response]


class Middleware(Protocol):
    """Runs before the pipeline: it answers a call itself, or passes this call or another one to ``respond``.

    The content of ``call`` is a Body.
    """

    @property
    def media_types(self) -> Collection[str]:
        """The media types that it handles, in lower case; "" means a body without one. Empty for all."""
        ...

    @property
    def protocol(self) -> str:
        """The protocol of the bodies that it answers by itself, with their custom attributes; "" if it reads none."""
        ...

    def __call__(self, call: Call[Response], header: Header, context: RequestContext, respond: Respond) -> Response:
        """Return the response; raise a LightboxError."""
        ...


@dataclass(frozen=True)
class Body(Content[Response]):
    """A body; ``content_type`` and ``accept`` are the raw headers, "" if absent.

    With ``crop`` the body is one image, and the call is for a part of it. A ``lazy_image`` replaces the body, as that
    of a session does. User code and models with string inputs get both as an encoded file. With ``plain`` the response
    holds the model's raw outputs, whatever its options say. ``protocol`` is that of a middleware's own body.
    """

    codecs: Codecs
    body: bytes
    content_type: str = ""
    accept: str = ""
    method: Method = Method.PREDICT
    outputs: tuple[str, ...] = ()
    crop: Crop | None = None
    lazy_image: LazyImage | None = None
    plain: bool = False
    protocol: str = ""

    @property
    def is_one_image(self) -> bool:
        """Whether the body is a single image."""
        return self.codecs.is_one_image(self.body, self.content_type)

    def as_json(self, body: bytes) -> Body:
        """Return a JSON body for the same method, answered with JSON."""
        return replace(self, body=body, content_type=JSON, accept=JSON)

    def cut(self) -> Body:
        """Return the body with the cropped part as its image. Raises BadRequest if it is not an image."""
        if not self.is_one_image:
            came = self.content_type[:100] or f"{len(self.body)} bytes without a Content-Type"
            raise BadRequest(f"{CROP}: expected a body that is one image, got {came}")
        return self.showing(self.codecs.images.part(self.body, self.crop))

    def showing(self, image: LazyImage) -> Body:
        """Return the body with an image in its place."""
        return replace(self, body=b"", content_type="", crop=None, lazy_image=image)

    @override
    def size(self, context: RequestContext) -> int:
        return len(self.body)

    @override
    def parse(self, context: RequestContext) -> Parsed:
        image = self.lazy_image
        if image is None:
            return self.codecs.parse(self.body, self.content_type, self.method, context)
        if self.method is not Method.PREDICT:
            raise BadRequest(f"tfs-method={self.method.value}: expected examples as application/json, got an image")

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            return self.codecs.images.decode_lazy(image, signature, options, context)

        return Parsed(decode)

    @override
    def writer(self, by_user_code: bool, has_names: bool) -> Writer[Response]:
        has_names = has_names and not self.plain and self.method is Method.PREDICT
        return _BodyWriter(None if by_user_code else self.codec(has_names), self.plain)

    def codec(self, has_names: bool) -> BodyCodec:
        """Return what writes the response; raise NotAcceptable. Without ``has_names`` it has no classes by name."""
        return self.codecs.negotiate(self.accept, has_names)

    @override
    def has_images(self, signature: SignatureSpec) -> bool:
        return True  # a preprocess reads every body

    @override
    def names_outputs_of(self, signature: SignatureSpec) -> bool:
        return False

    @override
    def shown(self, call: Call[Any], request: ModelCall, options: ModelOptions, context: RequestContext) -> Request:
        file = self._as_file(context)
        return Request(
            body=file.body,
            content_type=file.content_type,
            accept=file.accept,
            custom_attributes=call.attributes.pairs,
            signature=request.signature,
            options=options,
            original_images=self.codecs.originals(file.body, file.content_type, context, request.images),
        )

    @override
    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Body]:
        return [self._as_file(context)]

    @override
    def joined(self, responses: Sequence[Response], find: FindSignature) -> Response:
        return responses[0]

    def _as_file(self, context: RequestContext) -> Body:
        if self.lazy_image is None:
            return self
        file = self.codecs.images.encode(self.lazy_image, context)
        return replace(self, body=file, content_type=IMAGE, lazy_image=None)


@dataclass(frozen=True)
class _BodyWriter(Writer[Response]):
    codec: BodyCodec | None
    plain: bool

    @property
    @override
    def needs_names(self) -> bool:
        return self.codec is not None and self.codec.needs_names

    @property
    @override
    def draws(self) -> bool:
        return self.codec is not None and self.codec.draws

    @property
    @override
    def places_maps(self) -> bool:
        return not self.plain

    @override
    def check(self, outputs: int) -> None:
        if self.codec is not None:
            check_single(self.codec, outputs)

    @override
    def write(self, prediction: Prediction, signature: SignatureSpec) -> Response:
        assert self.codec is not None, "the user's code writes the response"
        return self.codec.encode(replace(prediction, ranked=None) if self.plain else prediction)

    @override
    def finish(
        self, postprocess: Function, outputs: Mapping[str, Array], shown: Request, signature: SignatureSpec
    ) -> Response:
        return finish(postprocess, outputs, shown)


@dataclass(frozen=True)
class TensorResponse:
    """The model's outputs in the requested order, and the signature, with its version, that computed them."""

    signature: SignatureSpec
    outputs: Mapping[str, Array]


@dataclass(frozen=True)
class ByteStrings:
    """An input of byte strings, row-major. Only a model that takes strings gets an array of them."""

    elements: Sequence[bytes]
    shape: tuple[int, ...]

    def array(self) -> Array:
        """Return an array of objects."""
        return string_tensor(self.elements).reshape(self.shape)


@dataclass(frozen=True)
class Tensors(Content[TensorResponse]):
    """Inputs by name, in their original dtypes.

    Byte strings for a model of pixels are encoded images. User code runs as for a body where possible: ``preprocess``
    and AWS handlers for encoded images, ``postprocess`` always. Outputs that the request names, and that the signature
    has, bypass ``postprocess``.
    """

    codecs: Codecs
    inputs: Mapping[str, Array | ByteStrings]
    outputs: tuple[str, ...] = ()

    @override
    def size(self, context: RequestContext) -> int:
        return context.memory.weight

    @override
    def parse(self, context: RequestContext) -> Parsed:
        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            images = _encoded_images(self.inputs, signature)
            if images:
                return self.codecs.images.decode(images, signature, options, context)
            inputs = {
                name: tensor.array() if isinstance(tensor, ByteStrings) else tensor
                for name, tensor in self.inputs.items()
            }
            self.codecs.images.check_among(inputs.values(), context)
            return ModelCall(signature, inputs)

        return Parsed(decode)

    @override
    def writer(self, by_user_code: bool, has_names: bool) -> Writer[TensorResponse]:
        return _TensorWriter(self.outputs)

    @override
    def has_images(self, signature: SignatureSpec) -> bool:
        return bool(_encoded_images(self.inputs, signature))

    @override
    def names_outputs_of(self, signature: SignatureSpec) -> bool:
        return bool(self.outputs) and all(name in signature.outputs for name in self.outputs)

    @override
    def shown(self, call: Call[Any], request: ModelCall, options: ModelOptions, context: RequestContext) -> Request:
        images = _encoded_images(self.inputs, request.signature)
        return Request(
            body=images[0] if len(images) == 1 else b"",
            content_type=IMAGE if images else "",
            accept="",
            custom_attributes=call.attributes.pairs,
            signature=request.signature,
            options=options,
            original_images=self.codecs.images.originals(lambda: images, context),
        )

    @override
    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Body] | None:
        signature = find()
        images = _encoded_images(self.inputs, signature)
        if not images or self.names_outputs_of(signature):
            return None
        self.codecs.images.check(images, context)  # all of them, as the handler gets one at a time
        return [Body(self.codecs, image, IMAGE) for image in images]

    @override
    def joined(self, responses: Sequence[Response], find: FindSignature) -> TensorResponse:
        """Return one tensor of byte strings."""
        return _selected(
            find(), {RESPONSE_OUTPUT: string_tensor([response.body for response in responses])}, self.outputs
        )


@dataclass(frozen=True)
class _TensorWriter(Writer[TensorResponse]):
    names: tuple[str, ...]

    @override
    def check(self, outputs: int) -> None:
        pass

    @override
    def write(self, prediction: Prediction, signature: SignatureSpec) -> TensorResponse:
        if self.names != (RESPONSE_OUTPUT,) or RESPONSE_OUTPUT in prediction.outputs:
            return _selected(signature, prediction.outputs, self.names)
        rows = prediction.ranked() if prediction.ranked else None
        if rows is None:
            raise BadRequest(f"outputs: the model's outputs have no classes or objects by name; got {RESPONSE_OUTPUT}")
        return TensorResponse(signature, {RESPONSE_OUTPUT: string_tensor(rows)})

    @override
    def finish(
        self, postprocess: Function, outputs: Mapping[str, Array], shown: Request, signature: SignatureSpec
    ) -> TensorResponse:
        finished = finish_tensors(postprocess, outputs, shown)
        tensors = {RESPONSE_OUTPUT: string_tensor([finished.body])} if isinstance(finished, Response) else finished
        return _selected(signature, tensors, self.names)


def _selected(signature: SignatureSpec, outputs: Mapping[str, Array], names: tuple[str, ...]) -> TensorResponse:
    unknown = [name for name in names if name not in outputs]
    if unknown:
        raise BadRequest(
            f"outputs: the user's code returns {', '.join(outputs)}, the model {', '.join(signature.outputs)}; "
            f"got {echo(', '.join(unknown))}"
        )
    return TensorResponse(signature, {name: outputs[name] for name in names or outputs})


def _encoded_images(inputs: Mapping[str, Array | ByteStrings], signature: SignatureSpec) -> Sequence[bytes]:
    """Return the encoded images among the inputs: byte strings of shape [N] or [N, 1] for a model that takes images.

    A string model may take texts instead: its strings count as images only if all begin like one. Raises
    InputMismatch for byte strings of another shape for a model of pixels, and if there is no image.
    """
    if inputs.keys() != signature.inputs.keys() or len(inputs) != 1:
        return ()
    ((name, tensor),) = inputs.items()
    image = signature.image
    if image is None or not isinstance(tensor, ByteStrings):
        return ()
    elements, shape = tensor.elements, tensor.shape
    in_a_row = len(elements) == (shape[0] if shape else 1)
    if image.encoded:
        return elements if in_a_row and all(map(is_image, elements)) else ()
    if not elements or not in_a_row:
        raise InputMismatch(f"input {name}: expected N encoded images of shape [N], got shape {list(shape)}")
    return elements
