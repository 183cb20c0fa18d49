"""Reads recipes of pixels and answers from a model's files: a module for each library that writes such files.

A recipe is options of ``lightbox.json`` with the place that they are from. ``lightbox.json`` and the settings override
each of them. Nothing is guessed: what no file says is left to the options, and an output whose form is not known stays
a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lightbox.base.settings import Settings
from lightbox.heads import ranking_problem
from lightbox.model.options import (
    INFERENCE,
    RANKING,
    ModelOptions,
    Recipe,
    RecipeError,
    ResolvedOptions,
    checked,
    load_options,
    own_options,
)
from lightbox.model.presets import OF_ANSWERS, OF_PIXELS
from lightbox.model.spec import DEFAULT_SIGNATURE, SignatureSpec
from lightbox.model_files.checks import model_folder, newest_folder, newest_signatures
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import (
    libreyolo,
    openvino,
    output_names,
    rfdetr,
    tflite_metadata,
    timm,
    transformers,
    ultralytics,
)
from lightbox.model_files.recipes.files import FROM_TORCH, ModelFiles, Reader
from lightbox.model_runtime.access import is_file
from lightbox.model_runtime.engines import AUTO
from lightbox.model_runtime.engines.setting import setting_of
from lightbox.model_runtime.formats import model_file

READERS: Mapping[str, Reader] = {
    "ultralytics": ultralytics.read,
    "libreyolo": libreyolo.read,
    "transformers": transformers.read,
    "timm": timm.read,
    "rfdetr": rfdetr.read,
    "openvino": openvino.read,
    "litert": tflite_metadata.read,
}
"""Readers of what a library has written about a model, by the option ``recipe``."""


def model_options(model: ModelOnDisk, code_dirs: Sequence[Path], settings: Settings) -> ResolvedOptions:
    """Return a model's options: those of its recipe, overridden by ``lightbox.json`` and the settings.

    ``fast_decode`` may be that of ``lightbox optimize``, if the options leave it open.
    Raises ModelOptionsError as ``load_options``, and RecipeError for a recipe that cannot be followed or one of two,
    unless the options say how pixels are made, or the model's code may make them.
    """
    own = own_options(code_dirs, settings)
    try:
        recipe = find_recipe(model, own, settings.linked_folders)
    except RecipeError:
        if not own.keys() & {"preset", *OF_PIXELS} and not any(is_file(one / INFERENCE) for one in code_dirs):
            raise
        recipe = None
    options = load_options(code_dirs, settings, recipe)
    if "fast_decode" not in own and settings.engine in (None, AUTO):
        setting, _ = setting_of(newest_folder(model), own)
        options = options.model_copy(update={"fast_decode": True}) if setting and setting.fast_decode else options
    return options


def find_recipe(
    model: ModelOnDisk, own: Mapping[str, Any] = MappingProxyType({}), allowed: Sequence[Path] = ()
) -> Recipe | None:
    """Return the recipe in the files of a model's newest version, None without one or for a model without pixels.

    ``own`` are the options that are set. Links may lead into the folders ``allowed``. Raises RecipeError for a broken
    recipe, for two, and if there is no recipe of the library that the option ``recipe`` names.
    """
    wanted = own.get("recipe", "auto")
    signature = newest_signatures(model).get(DEFAULT_SIGNATURE)
    if signature is None or wanted == "none":
        return None
    folder = newest_folder(model)
    file = model_file(folder)
    place = file.place().parent if file else folder
    files = ModelFiles(file.path if file else folder, signature, place, model_folder(place), allowed, own.keys())
    readers = READERS if wanted == "auto" else {wanted: READERS[wanted]}
    takes_pixels = files.image is not None  # libraries write the same files beside models of texts and sounds
    found = {name: recipe for name, read in readers.items() if takes_pixels and (recipe := read(files))}
    if not found and wanted != "auto":
        raise RecipeError(f"recipe: expected files with {wanted}'s recipe, found none for {files.path}")
    if len(found) > 1:
        sources = " and ".join(recipe.source for recipe in found.values())
        raise RecipeError(f"recipe: {sources} disagree; set it to one of {', '.join(found)}, or to none")
    recipe = next(iter(found.values()), None)
    if signature.open_input is None:
        recipe = recipe or output_names.read(files)
    elif recipe:
        recipe = recipe._replace(options={"layout": FROM_TORCH, **recipe.options})
    return _fitting(checked(recipe), signature.with_layout(FROM_TORCH)) if recipe else None


def changed_key(model: ModelOnDisk, options: ModelOptions, allowed: Sequence[Path] = ()) -> str | None:
    """Return the first option from a recipe that the files of a model, or of one version, no longer have; else None.

    Raises RecipeError as ``find_recipe``.
    """
    if not isinstance(options, ResolvedOptions) or not options.of_recipe:
        return None
    own = {key: getattr(options, key) for key in options.model_fields_set - options.of_recipe}
    recipe = find_recipe(model, own, allowed)
    has = recipe.options if recipe else {}
    return next((key for key in sorted(options.of_recipe) if has.get(key) != getattr(options, key)), None)


def _fitting(recipe: Recipe, signature: SignatureSpec) -> Recipe:
    """Return a recipe without its answers if the model's outputs are others, such as features: these stay tensors."""
    options = ModelOptions().model_copy(update=dict(recipe.options))
    asks = any(getattr(options, key) is not None for key in RANKING)
    if not asks or (problem := ranking_problem(options, signature)) is None:
        return recipe
    if options.labels and ranking_problem(options.model_copy(update={"labels": None}), signature) is None:
        raise RecipeError(f"{recipe.source}: {problem}; set recipe to none, and the options")
    pixels = {key: value for key, value in recipe.options.items() if key not in OF_ANSWERS}
    return recipe._replace(options=pixels, said=f"{recipe.said} (its outputs stay tensors: {problem})")
