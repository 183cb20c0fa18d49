"""Options that the newest version of a model cannot follow: outputs, scaling and labels that do not fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lightbox.base.settings import Settings
from lightbox.heads import ranking_problem
from lightbox.model.image_options import fixed_size, image_problems
from lightbox.model.options import OPTIONS_FILE, RANKING, ModelOptions, OptionSettings, ResolvedOptions, place_of
from lightbox.model.presets import OF_PIXELS
from lightbox.model.spec import DEFAULT_SIGNATURE, ImageInput, SignatureSpec
from lightbox.model_files.checks import newest_folder, newest_signatures, reading_once
from lightbox.model_files.layout import ModelOnDisk, is_version
from lightbox.model_files.recipes import model_options
from lightbox.model_runtime.access import is_file
from lightbox.model_runtime.engines import AUTO, DEFAULT
from lightbox.model_runtime.engines.hardware import INT8
from lightbox.model_runtime.formats import ModelFile, model_file
from lightbox.user_code.paths import UserCodeError, find_code, find_inference, refuse_code, refuse_misplaced_options


class Misfit(NamedTuple):
    """An option that a model cannot follow."""

    key: str
    sentence: str
    is_own: bool
    """Whether it is from the model's own lightbox.json."""
    is_idle: bool
    """Whether it changes nothing for the model: one for all models may be meant for others."""


_OF_IMAGES = ("preset", "layout", "image_size", "fast_decode", *sorted(OF_PIXELS))
_OPENVINO = "openvino"


@reading_once()
def fitting_options(model: ModelOnDisk, code_dirs: Sequence[Path], settings: Settings) -> ResolvedOptions:
    """Return a model's options; raise as ``option_problems``.

    Without those of RANKING for all models that it cannot follow: its responses would be wrong.
    """
    unfit = {misfit.key for misfit in option_problems(model, code_dirs, settings) if not misfit.is_own}
    options = model_options(model, code_dirs, settings)
    return options.model_copy(update=dict.fromkeys(unfit.intersection(RANKING)))


def option_problems(model: ModelOnDisk, code_dirs: Sequence[Path], settings: Settings) -> Iterator[Misfit]:
    """Yield the options that a model's newest version cannot follow.

    Raises ModelOptionsError and UserCodeError for unreadable files in ``code_dirs``, and for misplaced ones.
    """
    refuse_code(code_dirs, settings)
    options = model_options(model, code_dirs, settings)
    if is_file(model.base_path):
        _refuse_options_beside(model.base_path, code_dirs)
    has_labels = options.labels is not None or find_inference(code_dirs) is not None
    refuse_misplaced_options(code_dirs, has_labels)
    yield from misfits(model.name, newest_signatures(model), options, code_dirs, settings)
    file, engine = model_file(newest_folder(model)), options.engine or settings.engine or AUTO
    problems = list[tuple[str, str]]()
    if file and engine == DEFAULT and (options.engine or settings.engine):
        problems.append(("engine", f"{DEFAULT!r} does not open {file.path}; set {AUTO!r}"))
    if options.precision != "f32" and (engine not in (_OPENVINO, AUTO, *([DEFAULT] if file else []))):
        problems.append(("precision", f"{options.precision!r} is OpenVINO's, but the engine is {engine}; set {AUTO!r}"))
    elif file and options.precision == INT8 and not _has_int8(file):
        problems.append(("precision", f"{file.path} has no INT8 model: lightbox optimize makes one"))
    for key, problem in problems:
        by = "LIGHTBOX_ENGINE" if key == "engine" and options.engine is None else None
        yield _misfit(key, f"{problem}; the model is {model.name!r}", options, code_dirs, settings, by, is_idle=True)


def _refuse_options_beside(file: Path, code_dirs: Sequence[Path]) -> None:
    """Raise UserCodeError for a ``lightbox.json`` that would count only if the model were not named by its file."""
    folder = file.parent
    whole = folder.parent if is_version(folder.name) else folder
    for place in (folder, folder / "code", whole / "code"):
        if place not in code_dirs and is_file(place / OPTIONS_FILE):
            raise UserCodeError(
                f"{place / OPTIONS_FILE} is not read for a model that is a file: name the folder {whole}, "
                "or set the options by LIGHTBOX_OPTIONS"
            )


def misfits(
    model: str,
    signatures: Mapping[str, SignatureSpec],
    options: ModelOptions,
    code_dirs: Sequence[Path],
    settings: Settings,
) -> Iterator[Misfit]:
    """Yield which of these ``options`` a version with these signatures cannot follow, as ``option_problems`` does."""
    code = find_code(code_dirs)  # it may scale and name classes by itself
    # Labels for all models may be left out of these options: a start looks for a misplaced file of them.
    refuse_misplaced_options(code_dirs, has_labels=True)
    problem = _misfit_of_outputs(model, signatures, options)
    if problem:
        yield _misfit("outputs", problem, options, code_dirs, settings)
    signature = signatures.get(DEFAULT_SIGNATURE) if code is None else None
    if signature is None:
        return
    signature, end = signature.with_layout(options.layout), f"; the model is {model!r}"
    expected = signature.image
    wrong = dict(image_problems(options, expected)) if expected else {}
    for key, why in wrong.items():
        yield _misfit(key, why + end, options, code_dirs, settings)
    inputs = [one.with_layout(options.layout).image for one in signatures.values()]
    pixels = [one for one in inputs if one and not one.encoded]
    for key, why in () if wrong else _idle(options, signature, expected, pixels):
        yield _misfit(key, why + end, options, code_dirs, settings, is_idle=True)
    given = [key for key in RANKING if getattr(options, key) is not None]
    while given and not problem and (ranking := ranking_problem(options, signature)):
        key = given.pop(0)
        yield (misfit := _misfit(key, ranking + end, options, code_dirs, settings))
        if misfit.is_own:
            return
        options = options.model_copy(update={key: None})  # the model may not follow the others alone


def _misfit(
    key: str,
    problem: str,
    options: ModelOptions,
    code_dirs: Sequence[Path],
    settings: Settings,
    by: str | None = None,
    is_idle: bool = False,
) -> Misfit:
    """``by`` is the setting that sets the option, if it is none of the options' own."""
    place, variable = place_of(key, options, code_dirs, settings), by or settings.of(OptionSettings).variable(key)
    is_of_recipe = isinstance(options, ResolvedOptions) and key in options.of_recipe
    hint = "; set the option recipe to none, or this one" if is_of_recipe else ""
    return Misfit(key, f"{by or place}: {problem}{hint}", is_of_recipe or variable is None, is_idle)


def _idle(
    options: ModelOptions, signature: SignatureSpec, expected: ImageInput | None, pixels: Sequence[ImageInput]
) -> Iterator[tuple[str, str]]:
    """Yield options about images that change nothing for any signature; ``pixels`` are those that take decoded ones."""
    if not pixels:
        unset, takes = ModelOptions(), ", ".join(map(str, signature.inputs.values()))
        given = [key for key in _OF_IMAGES if getattr(options, key) != getattr(unset, key)]
        what = "files, which the model decodes itself" if expected else "no image, or needs the option layout"
        for key in given[:1] if options.preset else given:
            yield key, f"works only with an input of pixels; the model takes {takes}: {what}"
    elif options.image_size and options.image_size not in [fixed_size(one, options) for one in pixels]:
        size = "x".join(map(str, fixed_size(pixels[0], options) or ()))
        yield "image_size", f"expected {size} or none, as the input {pixels[0].name} is of this size"


def _misfit_of_outputs(model: str, signatures: Mapping[str, SignatureSpec], options: ModelOptions) -> str | None:
    """Return the problem with the wanted outputs, None if the signatures have them all."""
    known = {name for signature in signatures.values() for name in signature.outputs}
    unknown = [name for name in options.outputs or () if known and name not in known]
    if not unknown:
        return None
    return f"the model {model!r} gives {', '.join(sorted(known))}; got {', '.join(unknown)}"


def _has_int8(file: ModelFile) -> bool:
    from lightbox.model_runtime.engines.openvino.int8 import Quantized  # imports numpy

    return Quantized.place(file.place().parent, DEFAULT_SIGNATURE).exists()
