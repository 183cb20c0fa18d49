"""What a model asks of Lightbox beyond its signature: ``code/lightbox.json``, under what the environment says."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from lightbox.core.errors import StartError
from lightbox.core.settings import Settings
from lightbox.core.settings_types import PART, EngineName, ScalingName, in_lower_case, parse_image_size, setting

OPTIONS_FILE = "lightbox.json"

_LABELS = TypeAdapter(tuple[str, ...])


class ModelOptionsError(StartError):
    """``code/lightbox.json`` cannot be used; the message names the file and every wrong key."""


class ModelOptions(BaseModel):
    """The keys of ``code/lightbox.json``; each may be left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    scaling: ScalingName = "none"
    """What happens to pixel values: none (0..255), unit (0..1), tf (-1..1), torch or caffe."""

    resize: Literal["bicubic", "bilinear", "nearest", "lanczos", "box", "tf_bilinear", "tf_nearest"] = "bicubic"
    """How images are resized: by one of Pillow's filters, or as `tf.image.resize` does it."""

    engine: EngineName | None = None
    """What the embedded model server executes this model with; `LIGHTBOX_ENGINE` where it is not given."""

    precision: Literal["f32", "bf16", "int8"] = "f32"
    """How OpenVINO computes. `bf16` is faster on CPUs that have it and less exact; `int8` takes what
    `scripts/quantize_model.py` has made, and f32 where it has made nothing."""

    image_size: tuple[int, int] | None = None
    """Width and height for a model whose signature fixes none: `640` or `"640x480"`."""

    outputs: tuple[str, ...] | None = None
    """Names of the outputs that are asked for and returned."""

    labels: str | tuple[str, ...] | None = None
    """Class names, or the name of a file beside this one with one name a line or a JSON list: responses then name the
    best classes. A handler gets the names, and makes its own response."""

    top_k: int | None = Field(default=None, ge=1)
    """How many classes a response names, the best first: 5 where only `labels` are given."""

    fast_decode: bool = False
    """Decode large JPEGs at reduced scale, which is faster; pixels change by up to 2/255."""

    jsonlines: Literal["rows", "document"] = "rows"
    """Form of `application/jsonlines`: a prediction a line, or AWS's `{"predictions": [...]}` on a single line."""

    model_changes: Literal["hold", "allow"] = "hold"
    """What becomes of a new version that takes or gives other things than the one that answers."""

    @field_validator("image_size", mode="before")
    @classmethod
    def _parse_image_size(cls, value: Any) -> Any:
        return parse_image_size(str(value)) if isinstance(value, str | int) else value


def parse_options(value: Any) -> Any:
    """Return the options of a text in JSON, whose keys and values are those of ``lightbox.json``."""
    if not isinstance(value, str):
        return value
    try:
        return ModelOptions.model_validate_json(value, strict=False)
    except ValidationError as error:
        raise PydanticCustomError("options", "{problems}", {"problems": _problems(error, "the text")}) from None


class OptionSettings(BaseModel):
    """The options that hold for every model, whatever its own ``lightbox.json`` says."""

    model_config = PART

    options: Annotated[ModelOptions, BeforeValidator(parse_options)] = setting(
        "Models",
        "LIGHTBOX_OPTIONS",
        default=ModelOptions,
        told_default="unset",
        told_values='a JSON object, such as `{"image_size": "640x480"}`',
    )
    """Options of all models: the [keys](options.md) of `code/lightbox.json`, of which each wins over the one in a
    model's file."""

    scaling: Annotated[ScalingName | None, BeforeValidator(in_lower_case)] = setting("Models", "LIGHTBOX_SCALING")
    """Scaling of pixel values. `none` leaves 0..255, `unit` gives 0..1, `tf` -1..1; `tf`, `torch` and `caffe` are
    Keras's modes. Overrides `scaling` in `LIGHTBOX_OPTIONS` and in a model's file. Without any the scaling is
    `none`."""

    labels: str | None = setting("Models", "LIGHTBOX_LABELS")
    """File with the model's class names, one a line: a path, or a name in the model's `code/`. Responses then name
    classes. Overrides `labels` in `LIGHTBOX_OPTIONS` and in a model's file."""

    def overrides(self) -> dict[str, Any]:
        """Return the options that are set, by key."""
        alone = {"scaling": self.scaling, "labels": self.labels}
        given = {key: getattr(self.options, key) for key in self.options.model_fields_set}
        return given | {key: value for key, value in alone.items() if value is not None}

    def variable(self, key: str) -> str | None:
        """Return what sets an option, for the beginning of a sentence about it; None where nothing does."""
        if getattr(self, key, None) is not None:
            return f"LIGHTBOX_{key.upper()}"
        return f"LIGHTBOX_OPTIONS: {key}" if key in self.options.model_fields_set else None


def load_options(code_dirs: Sequence[Path], settings: Settings) -> ModelOptions:
    """Return a model's options from the first ``lightbox.json`` in ``code_dirs``; what the settings say wins over it.

    Labels given by the name of a file are read from it, relative to ``code_dirs``. Raises ModelOptionsError when the
    file is not valid JSON or holds an unknown key or a wrong value, or when there is no such file of labels.
    """
    own, path = settings.of(OptionSettings), options_file(code_dirs)
    options = ModelOptions() if path is None else _read(path)
    options = options.model_copy(update=own.overrides())
    if isinstance(options.labels, str):
        labels = _read_labels(own.variable("labels") or "labels", options.labels, code_dirs)
        return options.model_copy(update={"labels": labels})
    return options


def options_file(code_dirs: Sequence[Path]) -> Path | None:
    """Return the first ``lightbox.json`` in ``code_dirs``, broken links among them; None where there is none."""
    return next((folder / OPTIONS_FILE for folder in code_dirs if os.path.lexists(folder / OPTIONS_FILE)), None)


def _read(path: Path) -> ModelOptions:
    try:
        return ModelOptions.model_validate_json(path.read_bytes(), strict=False)
    except OSError as error:
        raise ModelOptionsError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ModelOptionsError(f"{path}: {_problems(error, 'the file')}") from None


def _problems(error: ValidationError, whole: str) -> str:
    return "; ".join(_problem(detail, whole) for detail in error.errors())


def _problem(detail: Any, whole: str) -> str:
    key = ".".join(map(str, detail["loc"])) or whole
    if detail["type"] == "extra_forbidden":
        known = list(ModelOptions.model_fields)
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"expected {', '.join(known)}"
        return f"{key}: there is no such option; {hint}"
    return f"{key}: {detail['msg'].removeprefix('Value error, ')}, got {detail['input']!r}"


def _read_labels(setting: str, name: str, code_dirs: Sequence[Path]) -> tuple[str, ...]:
    """Read one label a line; an empty line is a class without a name."""
    candidates = list(dict.fromkeys(folder / name for folder in code_dirs))
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    if path is None:
        raise ModelOptionsError(f"{setting}: there is no file {' or '.join(map(str, candidates)) or name}")
    try:
        text = path.read_text("utf-8-sig")
        if path.suffix == ".json":
            return _LABELS.validate_json(text)
        return tuple(line.strip() for line in text.splitlines())
    except ValidationError:
        raise ModelOptionsError(f"{setting}: {path}: expected a JSON list of names") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelOptionsError(f"{setting}: {path} cannot be read as UTF-8 text: {error}") from None
