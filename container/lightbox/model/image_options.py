"""The effect of a model's options on its images, and their conflicts."""

from __future__ import annotations

from collections.abc import Iterator

from lightbox.model.options import ModelOptions
from lightbox.model.spec import ImageInput

Problem = tuple[str, str]
"""An option, and a sentence about it that begins with the expected value."""


def fixed_size(wanted: ImageInput, options: ModelOptions) -> tuple[int, int] | None:
    """Width and height of every image: the signature's, else the option's; None for the image's own."""
    if options.image_size is None:
        return (wanted.width, wanted.height) if wanted.width and wanted.height else None
    return wanted.width or options.image_size[0], wanted.height or options.image_size[1]


def image_problems(options: ModelOptions, target: ImageInput) -> Iterator[Problem]:
    """Yield the options that do not fit an input, each with a sentence."""
    explicit, channels = options.model_fields_set, target.channels
    if target.encoded:
        yield from _problems_of_files(options, target.name)
        return
    if "float" not in target.dtype:
        for key in ("scaling", "mean", "std"):
            if getattr(options, key) not in (None, "none"):
                made = repr(options.scaling) if key == "scaling" else "it"
                yield key, f"{made} makes fractions, but the model's input {target.name} is {target.dtype}"
    if options.scaling in ("torch", "caffe") and channels != 3:
        yield "scaling", f"{options.scaling!r} is for 3 channels, but the model's input {target.name} has {channels}"
    if options.channels == "bgr" and channels != 3:
        yield "channels", f"'bgr' is for 3 channels, but the model's input {target.name} has {channels}"
    for key in ("mean", "std", "pad"):
        values = getattr(options, key)
        if isinstance(values, tuple) and len(values) not in (1, channels):
            yield (
                key,
                f"expected {channels} numbers, one for each channel of the input {target.name}, got {len(values)}",
            )
    yield from _problems_of_size(options, target)
    if "layout" in explicit and options.layout is not None and (options.layout == "NCHW") != target.channels_first:
        yield "layout", f"the shape of the input {target.name} shows that it is not {options.layout}"


def _problems_of_size(options: ModelOptions, target: ImageInput) -> Iterator[Problem]:
    size = fixed_size(target, options)
    if options.fit != "stretch" and size is None and options.resize_shorter is None:
        sentence = f"{options.fit!r} needs a fixed size, but the input {target.name} has none"
        yield "fit", f"{sentence}; set image_size, such as 640x640"
    if options.resize_longer is not None and size is not None:
        yield "resize_longer", f"expected none, as the input {target.name} is {size[0]}x{size[1]}"
    if options.stride is not None and size is not None and (options.fit == "crop" or (target.width and target.height)):
        yield "stride", f"expected none, as the input {target.name} is {size[0]}x{size[1]}"
    if size is not None and options.resize_shorter is not None and options.resize_shorter < max(size):
        least = f"expected at least {max(size)}, the longer side of the input {target.name}"
        yield "resize_shorter", f"{least}, got {options.resize_shorter}"


def _problems_of_files(options: ModelOptions, name: str) -> Iterator[Problem]:
    for key, unset in (("fit", "stretch"), ("mean", None), ("std", None), ("channels", "rgb")):
        if getattr(options, key) != unset:
            yield key, f"expected none, because the input {name} takes files, which the model decodes itself"
