"""The start's report on the pixels of a model: their scaling, and what the model's files show about it.

A wrong scaling raises no error: the model answers with wrong scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings
from lightbox.model.image_options import fixed_size
from lightbox.model.options import ModelOptions, OptionSettings, ResolvedOptions, options_file
from lightbox.model.presets import PRESETS
from lightbox.model.spec import DEFAULT_SIGNATURE, ImageInput, refused_pixels
from lightbox.model_files.checks import newest_folder, newest_signatures, reading_once
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import model_options
from lightbox.model_files.rescaling import Rescaling, onnx_rescaling
from lightbox.model_files.saved_model import FILE, ModelFileError, input_rescaling
from lightbox.model_runtime.formats import ONNX, ModelFile, model_file
from lightbox.supervisor.starting import models_on_disk
from lightbox.user_code.paths import find_code

PIXELS = {
    "none": "0..255",
    "unit": "0..1",
    "tf": "-1..1",
    "torch": "less the mean of ImageNet, by its deviation: about -2..2",
    "caffe": "in the order BGR, less the mean of ImageNet: -124..152",
}
"""The range of pixels after each scaling."""
_NORMALIZED = 20.0
"""Largest usual range of training pixels: a graph that maps 0..255 into it expects 0..255."""


class _PixelRange(Enum):
    """The range of pixels that the graph expects."""

    WHOLE = "0..255"
    SMALL = "about 0..1"
    UNKNOWN = ""
    NOT_FOUND = "not found"


@dataclass(frozen=True)
class ScalingLine:
    """One line about a model's pixels; ``wrong`` if it needs attention."""

    text: str
    wrong: bool

    def __str__(self) -> str:
        return f"warning: {self.text}" if self.wrong else self.text


def scaled_input(model: ModelOnDisk, layout: str | None = None) -> ImageInput | None:
    """Return the input for pixels as floating-point numbers, None for a model without one."""
    signature = newest_signatures(model).get(DEFAULT_SIGNATURE)
    wanted = signature.with_layout(layout).image if signature else None
    return wanted if wanted is not None and not wanted.encoded and "float" in wanted.dtype else None


def scaling_line(model: ModelOnDisk, code_dirs: Sequence[Path], settings: Settings) -> ScalingLine | None:
    """Return the line about a model's recipe or, without one, its scaling; None without an input for pixels.

    Raises ModelOptionsError and UserCodeError for unreadable files in ``code_dirs``.
    """
    options, code = model_options(model, code_dirs, settings), find_code(code_dirs)
    wanted = scaled_input(model, options.layout)
    if options.recipe_source:
        return ScalingLine(_recipe_line(model, options, wanted), False)
    if wanted is None:
        why = _refusal_of_pixels(model) if code is None else None
        return ScalingLine(f"{model.name} takes no images: {why}", True) if why else None
    setting = "scaling" in options.model_fields_set
    expects, result = _look(newest_folder(model), wanted.name)
    place = _place(options, code_dirs, settings) if setting else "the default"
    assumed = f"scaling of {model.name}: {options.scaling}, {_pixels(options)} ({place})"
    if code is not None:
        return ScalingLine(f"{assumed}, unless {code} scales by itself; {result}", False)
    advice = _advice(expects, options.scaling, setting)
    unsaid = (
        "" if fixed_size(wanted, options) is None else _unsaid(options, is_known=expects is not _PixelRange.UNKNOWN)
    )
    try_it = f"; compare: lightbox try {model.name} --image photo.jpg" if advice else ""
    return ScalingLine(f"{assumed}; {result}{f': {advice}' if advice else ''}{unsaid}{try_it}", bool(advice))


def _unsaid(options: ModelOptions, *, is_known: bool) -> str:
    """Return a clause about what no file says of images of other sizes: the one option to set, or those to choose."""
    if options.model_fields_set & {"preset", "resize"}:
        return ""
    if is_known:
        return "; no file says how images are resized: set resize, such as nearest for keras.utils.load_img"
    return "; no file says how images are prepared: set a preset, such as torchvision, or fit, resize and scaling"


def _recipe_line(model: ModelOnDisk, options: ResolvedOptions, wanted: ImageInput | None) -> str:
    """Return what the recipe in a model's files says, and what other options leave of it."""
    said = [options.recipe_said]
    if options.labels and "labels" in options.of_recipe:
        said.append(f"{len(options.labels)} names")
    if wanted is not None:
        is_own = options.fit == "stretch" and fixed_size(wanted, options) is None
        said += ["images of any size" if is_own else options.fit, _pixels(options)]
    left_out = "" if options.of_recipe else "; other options replace it"
    return f"recipe of {model.name}: {', '.join(said)}; from {options.recipe_source}{left_out}"


def _refusal_of_pixels(model: ModelOnDisk) -> str | None:
    signature = newest_signatures(model).get(DEFAULT_SIGNATURE)
    return refused_pixels(signature) if signature else None


def _place(options: ModelOptions, code_dirs: Sequence[Path], settings: Settings) -> str:
    """Return the source of the scaling: a file or a variable."""
    if variable := settings.of(OptionSettings).variable("scaling"):
        return variable
    if options.preset and PRESETS[options.preset]["scaling"] == options.scaling:
        return f"preset {options.preset}"
    file = options_file(code_dirs)
    return f"{file}: scaling" if file else "the default"


def _pixels(options: ModelOptions) -> str:
    mean = "" if options.mean is None else f", less {list(options.mean)}"
    std = "" if options.std is None else f", by {list(options.std)}"
    return f"pixels {PIXELS[options.scaling]}{mean}{std}"


@reading_once()
def scaling_lines(settings: Settings) -> list[ScalingLine]:
    """Return a line for each model with a recipe, an input for pixels as floating-point numbers, or one like it.

    Unreadable models, and models that are loaded later, have none.
    """
    if not settings.has_fixed_models:
        return []
    lines, shared = [], models_on_disk.shared_code_dirs(settings)
    for model in models_on_disk.plan_models(settings)[0].values():
        folders = models_on_disk.code_dirs(model, shared)
        with suppress(StartError):
            if line := scaling_line(model, folders, settings):
                lines.append(line)
    return lines


def _advice(expects: _PixelRange, scaling: str, given: bool) -> str:
    if expects is _PixelRange.WHOLE and scaling != "none":
        return "pixels are scaled twice, the graph wants 0..255; set scaling to none"
    if expects is _PixelRange.SMALL and scaling in ("none", "caffe"):
        return "this suits pixels 0..1; set scaling to unit"
    if expects is _PixelRange.NOT_FOUND and not given:
        return "few models are trained on 0..255; set scaling to that of the training, or to none if it was 0..255"
    return ""


def _look(folder: Path, name: str) -> tuple[_PixelRange, str]:
    """Return the range of pixels that a version's files show, and a clause about it."""
    if file := model_file(folder):
        return _look_at_file(file, name)
    try:
        return _read(input_rescaling(folder, DEFAULT_SIGNATURE, name), FILE)
    except ModelFileError:
        return _PixelRange.UNKNOWN, f"what {FILE} does with them cannot be read"


def _look_at_file(file: ModelFile, name: str) -> tuple[_PixelRange, str]:
    """Return the same of a file that is no SavedModel; only the rescaling in an ONNX file is read."""
    if file.format == ONNX:
        with suppress(OSError, ValueError):
            found = onnx_rescaling(file.place(), name)
            if not found.changes_nothing:
                return _read(found, file.path.name)
    return _PixelRange.UNKNOWN, f"what {file.path.name} does with them is not known"


def _read(result: Rescaling, name: str) -> tuple[_PixelRange, str]:
    if result.unknown and result.changes_nothing:
        why = f"its first operation is {result.unknown}, with values that are not in it or more than one path"
        return _PixelRange.UNKNOWN, f"cannot tell whether {name} rescales, as {why}"
    if result.changes_nothing:
        followed = f", the image goes to {result.followed_by}" if result.followed_by else ""
        return _PixelRange.NOT_FOUND, f"no rescaling layer was found in {name}{followed}"
    low, high = result.limits(0, 255)
    after = f", and {result.unknown} may change that" if result.unknown else ""
    clause = f"{name} itself makes {low:.4g}..{high:.4g} of 0..255{after}"
    factors = [abs(factor) for factor in result.scale]
    if max(factors) * 255 <= _NORMALIZED or (
        all(abs(factor - 1) < 1e-3 for factor in factors) and max(map(abs, result.offset)) > 5
    ):
        return _PixelRange.WHOLE, clause
    if min(factors) >= 0.5 and max(factors) < 10 and max(map(abs, result.offset)) < 5:
        return _PixelRange.SMALL, clause
    return _PixelRange.UNKNOWN, f"{clause}, which does not show the range of pixels"
