"""A model's options beyond its signature: ``code/lightbox.json``, overridden by the environment."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from lightbox.base.control_characters import escape
from lightbox.base.error_texts import in_our_words
from lightbox.base.errors import StartError
from lightbox.base.machine.links import LEADS_OUT, followed
from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, EngineName, Option, ScalingName, in_lower_case, parse_image_size, setting
from lightbox.model.presets import OF_LOGITS, PRESETS, PresetName, with_preset
from lightbox.model.text_vectors import read_vectors
from lightbox.model_runtime.access import MOST_OPTIONS, MOST_TEXT, is_file, pass_lack, read_text_file

OPTIONS_FILE = "lightbox.json"
CODE = "code"
"""The folder in a model's that holds it, with the model's code."""
INFERENCE = "inference.py"
"""The file of the model's code."""

MOST_PIXELS = 65535
MOST_LABELS = 1_000_000
_MOST_PROBLEMS = 20
RecipeName = Literal["auto", "none", "ultralytics", "libreyolo", "transformers", "timm", "rfdetr", "openvino", "litert"]
ActivationName = Literal["softmax", "sigmoid", "none"]
_Ultralytics = Literal["ultralytics", "ultralytics-segment", "ultralytics-pose", "ultralytics-obb", "ultralytics-v5"]
_Torchvision = Literal["torchvision", "torchvision-segment", "torchvision-pose"]
MapName = Literal["classes", "modelapi-classes", "depth", "ultralytics-depth", "anomaly"]
DetectionsName = Literal[_Ultralytics, "libreyolo", "libreyolo-yolox", "detr", "rtdetr", "mmdet", "tf", _Torchvision]
_LABELS = TypeAdapter[tuple[str, ...] | dict[int, str]](tuple[str, ...] | dict[int, str])
_LARGEST, _SMALLEST = 3.4e38, 1.2e-38  # of float32, the dtype of scaled pixels
PerChannel = Annotated[
    tuple[float, ...] | None, BeforeValidator(lambda given: [given] if isinstance(given, int | float) else given)
]
RANKING = ("detections", "map", "labels", "top_k")
"""Options that name classes or objects, or place a map in an image."""
_ONLY_WITH: Mapping[str, tuple[str, str | tuple[str, ...]]] = {
    "resize_shorter": ("fit", "crop"),
    "resize_longer": ("fit", "crop"),
    "crop_pct": ("fit", "crop"),
    "crop_offset": ("fit", "crop"),
    "pad": ("fit", "letterbox"),
    "pad_at": ("fit", "letterbox"),
    "rounding": ("fit", "letterbox"),
    "stride": ("fit", ("letterbox", "crop")),
    "score_threshold": ("detections", ""),
    "iou_threshold": ("detections", ("ultralytics", "libreyolo")),
    "class_agnostic": ("detections", ("ultralytics", "libreyolo")),
    "keypoints": ("detections", "ultralytics-pose"),
    "masks": ("detections", ""),
    "thresholds": ("map", "anomaly"),
    "text_vectors": ("labels", ""),
    "logit_scale": ("text_vectors", ""),
    "logit_bias": ("text_vectors", ""),
}
"""Options that need another one, and the beginning of its value, or of one of several; empty for any value."""
_NOT_WITH = (
    *(("map", "detections"), ("map", "top_k"), ("text_vectors", "detections"), ("text_vectors", "map")),
    ("resize_shorter", "crop_pct"),
)
"""Options that exclude each other."""


class ModelOptionsError(StartError):
    """``code/lightbox.json`` cannot be used; the message names the file and every wrong key."""


class RecipeError(ModelOptionsError):
    """A recipe in a model's files cannot be followed; the message names the file and the option that decides."""


class Recipe(NamedTuple):
    """Says how a model's pixels are made and what its answer means: options of ``lightbox.json``."""

    options: Mapping[str, Any]
    source: str
    """Where it is from, for the beginning of an error."""
    said: str
    """Its content in a clause."""


class ModelOptions(BaseModel):
    """The keys of ``code/lightbox.json``. All are optional."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    recipe: RecipeName = "auto"
    """Which library's [recipe](#recipes) in the model's files to follow. `none` follows none."""

    preset: PresetName | None = None
    """[Preprocessing of a library](#presets). Other options override it."""

    fit: Literal["stretch", "crop", "letterbox"] = "stretch"
    """How an image [fits](#fit) an input of another shape."""

    resize_shorter: int | None = Field(default=None, ge=1, le=MOST_PIXELS)
    """With `crop`: the shorter side in pixels before the cut, or without one."""

    resize_longer: int | None = Field(default=None, ge=1, le=MOST_PIXELS)
    """With `crop` and an input of open sides: the most pixels of the longer side, of an image that is not cut."""

    crop_pct: float | None = Field(default=None, ge=0.01, le=1)
    """With `crop`: the side of the input divided by that of the resized image."""

    crop_offset: Literal["nearest", "lower"] = "nearest"
    """With `crop`: where the cut begins if half a pixel is left over: `nearest` even pixel, or `lower` one."""

    pad: Annotated[int, Field(ge=0, le=255)] | tuple[Annotated[int, Field(ge=0, le=255)], ...] | None = Field(
        default=None, examples=[0, [124, 116, 104]]
    )
    """With `letterbox`: value of the padding, 0..255 or `[r, g, b]`; by default 114."""

    pad_at: Literal["sides", "end"] = "sides"
    """With `letterbox`: padding is on both `sides`, or only right and below: `end`."""

    rounding: Literal["nearest", "lower"] = "nearest"
    """With `letterbox`: the sides of the resized image are rounded to the `nearest` pixel, or to the `lower` one."""

    stride: int | None = Field(default=None, ge=2, le=1024)
    """With `letterbox`: one image alone is padded only to the next multiples of this, within `image_size`. With `crop`
    and an input of open sides: the sides of an image that is not cut are rounded down to multiples."""

    resize: Literal[
        "bicubic",
        "bilinear",
        "nearest",
        "lanczos",
        "box",
        "tf_bilinear",
        "tf_nearest",
        "opencv_bilinear",
        "openvino_bilinear",
    ] = "bicubic"
    """[Filter](#resize) for resizing."""

    scaling: ScalingName = "none"
    """[Scaling](#values) of pixels: `none` to 0..255, `unit` to 0..1, `tf` to -1..1, `torch` and `caffe` as these
    libraries. `lightbox try` compares them."""

    mean: PerChannel = Field(default=None, examples=[[0.5, 0.5, 0.5]])
    """Subtracted from the [scaled values](#values)."""

    std: PerChannel = Field(default=None, examples=[[0.5, 0.5, 0.5]])
    """Divides the result."""

    channels: Literal["rgb", "bgr"] = "rgb"
    """Order of the model's channels."""

    layout: Literal["NHWC", "NCHW"] | None = None
    """Layout of the input, if the signature does not show it."""

    image_size: tuple[int, int] | None = Field(default=None, examples=["640x480", 224])
    """Width and height of the input, if the signature fixes none."""

    outputs: tuple[str, ...] | None = Field(default=None, examples=[["probabilities"]])
    """Outputs to return; by default all."""

    labels: str | tuple[str, ...] | None = Field(default=None, examples=["labels.txt", ["cat", "dog"]])
    """[Class names](#labels-and-top_k), or a file with them beside `lightbox.json`."""

    top_k: int | None = Field(default=None, ge=1)
    """Number of classes in a response; by default 5 with `labels`."""

    activation: ActivationName | None = None
    """[Makes scores of logits](#labels-and-top_k), for `labels`, `top_k` and `detections`. `none` says that the scores
    are meant as they are."""

    text_vectors: str | None = Field(default=None, examples=["texts.npy"])
    """With `labels`: a file beside `lightbox.json` with a vector of a text for each. Scores are
    [cosines](#texts-for-labels) of the model's embedding."""

    logit_scale: float = Field(default=1, gt=0, allow_inf_nan=False)
    """With `text_vectors`: what cosines are multiplied with, the inverse of the model's temperature."""

    logit_bias: float = Field(default=0, allow_inf_nan=False)
    """With `text_vectors`: what is added then."""

    dequantize: tuple[float, float] | None = Field(default=None, examples=[[0.00390625, 0]])
    """With `labels` and `top_k`: scale and zero point of an output of integers. A score is (integer - zero point) *
    scale."""

    detections: DetectionsName | None = None
    """[Output format](#detections) of a detector."""

    score_threshold: float = Field(default=0.25, ge=0, le=1)
    """With `detections`: return objects with a higher score."""

    iou_threshold: float = Field(default=0.7, ge=0, le=1)
    """With `ultralytics` or `libreyolo`: boxes with a larger intersection over union are one object."""

    class_agnostic: bool = False
    """With `ultralytics` or `libreyolo`: also if their classes differ."""

    keypoints: tuple[Annotated[int, Field(ge=1, le=10_000)], Annotated[int, Field(ge=2, le=3)]] | None = Field(
        default=None, examples=[[17, 3]]
    )
    """With `ultralytics-pose`: keypoints of an object, and numbers of each: 3 with a score, else 2."""

    map: MapName | None = None
    """[A class or a number for each pixel](#maps), in the size of the image."""

    thresholds: tuple[float, float, Annotated[float, Field(gt=0)]] | None = Field(
        default=None, examples=[[0.4, 0.5, 2]]
    )
    """With `map` `anomaly`: those of an image and of a pixel, and the number that divides what is beyond them. By
    default anomalies are from 0 to 1, with thresholds of 0.5."""

    masks: Literal["rle", "polygon"] = "rle"
    """With `detections`: [masks](#detections) as run lengths, or as polygons."""

    engine: EngineName | None = None
    """[Engine](engines.md) of the model; by default `LIGHTBOX_ENGINE`."""

    precision: Literal["f32", "bf16", "int8"] = "f32"
    """Precision of OpenVINO. `bf16` is faster on CPUs that have it, and less exact. `int8` needs an INT8
    model: [`lightbox optimize`](engines.md#the-cheapest-setting-that-is-still-right) makes it, and finds the cheapest
    that is still right."""

    fast_decode: bool = False
    """Decode large JPEGs at a reduced size. Pixels differ by up to 2/255."""

    concurrency: int | None = Field(default=None, ge=1, le=1000)
    """Requests of the model that [run at once](handlers.md#handlers-that-wait) in all processes; further ones wait. By
    default `SAGEMAKER_GUNICORN_THREADS` in each worker."""

    jsonlines: Literal["rows", "document"] = "rows"
    """Form of JSON Lines: [one prediction per line, or all in one](from-aws-container.md#json-lines)."""

    model_changes: Literal["hold", "allow"] = "hold"
    """`allow` serves new versions with other inputs or outputs."""

    @property
    def may_give_logits(self) -> bool:
        """Whether the preset's classifiers give logits, and no option says how scores are made of them."""
        return self.preset in OF_LOGITS and self.detections is None and "activation" not in self.model_fields_set

    @field_validator("mean", "std")
    @classmethod
    def _refuse_what_float32_cannot_hold(cls, value: PerChannel) -> PerChannel:
        if not all(abs(number) <= _LARGEST for number in value or ()):
            raise ValueError("expected numbers that float32 can hold")
        return value

    @field_validator("std")
    @classmethod
    def _refuse_zero(cls, value: PerChannel) -> PerChannel:
        if any(abs(number) < _SMALLEST for number in value or ()):
            raise ValueError("expected numbers other than 0, because pixels are divided by them")
        return value

    @field_validator("image_size", mode="before")
    @classmethod
    def _parse_image_size(cls, value: Any) -> Any:
        return parse_image_size(str(value)) if isinstance(value, str | int) else value


class ResolvedOptions(ModelOptions):
    """The options of a model, and which of them nobody has set."""

    of_recipe: frozenset[str] = frozenset()
    """Keys whose values are from the recipe in the model's files."""
    recipe_source: str = ""
    """Where that recipe is from."""
    recipe_said: str = ""
    """Its content in a clause."""

    @property
    def for_images_only(self) -> bool:
        """Whether nobody asks for classes or objects by name: then only an image gets them, and a tensor what the model
        makes of it."""
        asked = {key for key in RANKING if getattr(self, key) is not None}
        return bool(asked) and asked <= self.of_recipe


def parse_options(value: Any) -> Any:
    """Return the options in a JSON text, with the keys and values of ``lightbox.json``."""
    if not isinstance(value, str):
        return value
    try:
        return ModelOptions.model_validate_json(value, strict=False)
    except ValidationError as error:
        raise PydanticCustomError("options", "{problems}", {"problems": _problems(error, "the text")}) from None


class OptionSettings(BaseModel):
    """The options for all models, which override each model's own ``lightbox.json``."""

    model_config = PART

    options: Annotated[ModelOptions, BeforeValidator(parse_options)] = setting(
        "Models",
        "LIGHTBOX_OPTIONS",
        default=ModelOptions,
        default_text="unset",
        values_text='a JSON object, such as `{"image_size": "640x480"}`',
    )
    """[Options](options.md) of all models. They override those in `code/lightbox.json`."""

    scaling: Annotated[ScalingName | None, BeforeValidator(in_lower_case)] = setting("Models", "LIGHTBOX_SCALING")
    """Scaling of pixel values. Overrides the option [`scaling`](options.md#values)."""

    labels: str | None = setting("Models", "LIGHTBOX_LABELS", option=Option(is_path=True))
    """File with class names, one per line: a path, or a name in the model's `code/`. Overrides the option
    [`labels`](options.md#labels-and-top_k)."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> OptionSettings:
        """Return options by the keys of ``lightbox.json`` for all models; raise ModelOptionsError."""
        try:  # as JSON, for the values and sentences of a file
            return cls.model_validate({"LIGHTBOX_OPTIONS": parse_options(json.dumps(options))})
        except PydanticCustomError as error:
            raise ModelOptionsError(f"LIGHTBOX_OPTIONS: {error.message()}") from None

    def overrides(self) -> dict[str, Any]:
        """Return the options that are set, by key."""
        alone = {"scaling": self.scaling, "labels": self.labels}
        given = {key: getattr(self.options, key) for key in self.options.model_fields_set}
        return given | {key: value for key, value in alone.items() if value is not None}

    def of_engine(self) -> dict[str, str]:
        """Return the options that are set of the embedded server's engine."""
        overrides = self.overrides()
        return {key: str(value) for key in ("engine", "precision") if (value := overrides.get(key)) is not None}

    def variable(self, key: str) -> str | None:
        """Return the variable that sets an option, for the beginning of an error; None if none does."""
        if getattr(self, key, None) is not None:
            return f"LIGHTBOX_{key.upper()}"
        if key in self.options.model_fields_set:
            return f"LIGHTBOX_OPTIONS: {key}"
        preset = self.options.preset
        return f"LIGHTBOX_OPTIONS: preset {preset}: {key}" if preset and key in PRESETS[preset] else None


def own_options(code_dirs: Sequence[Path], settings: Settings) -> dict[str, Any]:
    """Return what the first ``lightbox.json`` in ``code_dirs`` and the settings, which override it, set.

    Raises ModelOptionsError for invalid JSON, an unknown key, or a wrong value.
    """
    path = options_file(code_dirs)
    if path is not None and followed(path, _home(path.parent, settings), settings.linked_folders) is None:
        raise ModelOptionsError(f"{path} {LEADS_OUT}")
    options = ModelOptions() if path is None else _read(path)
    set_here = {key: getattr(options, key) for key in options.model_fields_set}
    return set_here | settings.of(OptionSettings).overrides()


def load_options(code_dirs: Sequence[Path], settings: Settings, recipe: Recipe | None = None) -> ResolvedOptions:
    """Return a model's options as ``own_options``, over those of a recipe.

    A file of labels is read relative to ``code_dirs``. Raises ModelOptionsError as ``own_options``, and for a missing
    file of labels or options that contradict each other.
    """
    own, path, set_here = settings.of(OptionSettings), options_file(code_dirs), own_options(code_dirs, settings)
    usual = recipe.options if recipe else {}
    merged = with_preset(set_here, usual)
    others = set_here.keys() | PRESETS.get(set_here.get("preset") or "", {}).keys()
    of_recipe = {key for key in merged.keys() & usual.keys() - others if merged[key] is usual[key]}
    options = ResolvedOptions(of_recipe=frozenset(of_recipe)).model_copy(update=merged)
    if recipe:
        options = options.model_copy(update={"recipe_source": recipe.source, "recipe_said": recipe.said})
    if conflict := _conflict(options):
        key, sentence = conflict
        beside = f"; the model's own options are in {path}" if own.variable(key) and path else ""
        raise ModelOptionsError(f"{place_of(key, options, code_dirs, settings)}: {sentence}{beside}")
    found: dict[str, Any] = {}
    if isinstance(options.labels, str):
        setting, places = _places("labels", options.labels, path, code_dirs, settings)
        found["labels"] = _read_labels(setting, options.labels, places)
    if options.text_vectors is not None:
        setting, places = _places("text_vectors", options.text_vectors, path, code_dirs, settings)
        labels = found.get("labels", options.labels)
        found["text_vectors"] = _checked_vectors(setting, options.text_vectors, places, len(labels or ()))
    return options.model_copy(update=found)


def _places(
    key: str, name: str, path: Path | None, code_dirs: Sequence[Path], settings: Settings
) -> tuple[str, list[Path]]:
    """Return where an option with a file's name is set, for the beginning of an error, and where the file may be."""
    variable = settings.of(OptionSettings).variable(key)
    if variable is None and path is not None:
        return key, _inside(key, name, path.parent, code_dirs, settings)
    return variable or key, [folder / name for folder in code_dirs or (Path(),)]


def _checked_vectors(setting: str, name: str, places: Sequence[Path], count: int) -> str:
    """Return the path of a file with a vector for each of the labels."""
    path = next((place for place in places if is_file(place)), None)
    if path is None:
        raise ModelOptionsError(f"{setting}: there is no file {' or '.join(map(str, places)) or name}")
    try:
        texts = len(read_vectors(path))
    except (OSError, ValueError) as error:
        pass_lack(error)
        raise ModelOptionsError(f"{setting}: {path} cannot be read: {error}") from None
    if texts != count:
        raise ModelOptionsError(f"{setting}: {path} has {texts:,} vectors, expected one for each of {count:,} labels")
    return str(path.absolute())


def checked(recipe: Recipe) -> Recipe:
    """Return a recipe whose values are those that ``lightbox.json`` may have. Raises RecipeError."""
    try:
        options = ModelOptions.model_validate(recipe.options)
    except ValidationError as error:
        raise RecipeError(f"{recipe.source}: {_problems(error, 'the file')}; set recipe to none") from None
    return recipe._replace(options={key: getattr(options, key) for key in recipe.options})


def place_of(key: str, options: ModelOptions, code_dirs: Sequence[Path], settings: Settings) -> str:
    """Return where an option is set, for the beginning of an error: a variable, a file, or a recipe."""
    if isinstance(options, ResolvedOptions) and key in options.of_recipe:
        return f"{options.recipe_source}: {key}"
    path, variable = options_file(code_dirs), settings.of(OptionSettings).variable(key)
    return variable or f"{path or OPTIONS_FILE}: {key}"


def _conflict(options: ModelOptions) -> tuple[str, str] | None:
    """Return an option that another one makes useless, and a sentence; None if there is none."""
    for key, (other, value) in _ONLY_WITH.items():
        has = getattr(options, other)
        is_set = key in options.model_fields_set and getattr(options, key) is not None
        if is_set and not (str(has).startswith(value) if value else has):
            values = " or ".join(map(repr, value if isinstance(value, tuple) else [value]))
            return key, f"works only with {f'{other} {values}' if value else other}, got {other} {has!r}"
    for key, other in _NOT_WITH:
        if getattr(options, key) is not None and getattr(options, other) is not None:
            return key, f"expected this or {other}, got both"
    if options.scaling in ("torch", "caffe"):
        for key in ("mean", "std"):
            if getattr(options, key) is not None:
                return key, f"the scaling {options.scaling!r} has its own mean; set scaling to unit or none"
        if options.channels == "rgb" and options.scaling == "caffe" and "channels" in options.model_fields_set:
            return "channels", "the scaling 'caffe' is in the order bgr"
    return None


def options_file(code_dirs: Sequence[Path]) -> Path | None:
    """Return the first ``lightbox.json`` in ``code_dirs``, including broken links; None if there is none."""
    return next((folder / OPTIONS_FILE for folder in code_dirs if os.path.lexists(folder / OPTIONS_FILE)), None)


def _read(path: Path) -> ModelOptions:
    try:
        return ModelOptions.model_validate_json(read_text_file(path, MOST_OPTIONS), strict=False)
    except OSError as error:
        pass_lack(error)
        raise ModelOptionsError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ModelOptionsError(f"{path}: {_problems(error, 'the file')}") from None


def _problems(error: ValidationError, whole: str) -> str:
    if (count := error.error_count()) > _MOST_PROBLEMS:
        return f"{whole}: {count:,} values are wrong"
    return "; ".join(_problem(detail, whole) for detail in error.errors())


def _problem(detail: Any, whole: str) -> str:
    key = escape(".".join(map(str, detail["loc"]))) or whole  # the file has chosen it
    if detail["type"] == "extra_forbidden":
        known = list(ModelOptions.model_fields)
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"expected {', '.join(known)}"
        return f"{key}: there is no such option; {hint}"
    return f"{key}: {in_our_words(detail['msg'])}, got {detail['input']!r}"


def _home(folder: Path, settings: Settings) -> Path:
    """Return the folder that the files in a folder of code may name files of: its model's, or itself."""
    return folder.parent if folder.name == CODE and folder != settings.code_dir else folder


def _inside(key: str, name: str, own: Path, code_dirs: Sequence[Path], settings: Settings) -> list[Path]:
    """Return where a file may be that the options in ``own`` name: in the model's folder, or in other ``code_dirs``.

    Raises ModelOptionsError for a name that leads elsewhere.
    """
    homes = {folder: _home(folder, settings) if folder == own else folder for folder in code_dirs}
    places = {folder: followed(folder / name, home, settings.linked_folders) for folder, home in homes.items()}
    if places[own] is None:
        raise ModelOptionsError(f"{own / OPTIONS_FILE}: {key}: {name[:200]!r} {LEADS_OUT}")
    return [place for place in places.values() if place is not None]


def _read_labels(setting: str, name: str, places: Sequence[Path]) -> tuple[str, ...]:
    """Read one label a line; an empty line before others is a class without a name. A model file has no folder of
    code."""
    candidates = list(dict.fromkeys(places))
    path = next((candidate for candidate in candidates if is_file(candidate)), None)
    if path is None:
        raise ModelOptionsError(f"{setting}: there is no file {' or '.join(map(str, candidates)) or name}")
    try:
        text = read_text_file(path, MOST_TEXT)
        lines = map(str.strip, text.rstrip().splitlines())
        labels = _of_json(text) if path.suffix == ".json" else tuple(lines)
    except (ValidationError, KeyError):
        expected = 'a JSON list of names, or an object {"0": name, "1": name, ...}'
        raise ModelOptionsError(f"{setting}: {path}: expected {expected}") from None
    except OSError as error:
        pass_lack(error)
        raise ModelOptionsError(f"{setting}: {path} cannot be read: {error.strerror}") from None
    if len(labels) > MOST_LABELS:
        raise ModelOptionsError(f"{setting}: {path} has {len(labels):,} names, expected at most {MOST_LABELS:,}")
    return labels


def _of_json(text: str) -> tuple[str, ...]:
    """Return a list of labels, or an object with one for each number, as Hugging Face's id2label. Raises KeyError."""
    found = _LABELS.validate_json(text)
    return tuple(found[number] for number in range(len(found)))
