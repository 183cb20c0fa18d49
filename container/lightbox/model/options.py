"""What a model asks of Lightbox beyond its signature: ``code/lightbox.json``, under the environment."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from lightbox.core.errors import StartError
from lightbox.core.settings_types import ScalingName, parse_image_size

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

    engine: Literal["tensorflow", "openvino", "auto"] | None = None
    """What the embedded model server executes this model with; `LIGHTBOX_ENGINE` where it is not given."""

    image_size: tuple[int, int] | None = None
    """Width and height for a model whose signature fixes none: `640` or `"640x480"`."""

    outputs: tuple[str, ...] | None = None
    """Names of the outputs that are asked for and returned."""

    labels: str | tuple[str, ...] | None = None
    """Class names, or the name of a file beside this one with one name a line or a JSON list: responses then name the
    best classes. A handler gets the names, and makes its own response."""

    top_k: int | None = Field(default=None, ge=1)
    """How many classes a response names, the best first: 5 where only `labels` are given."""

    @field_validator("image_size", mode="before")
    @classmethod
    def _parse_image_size(cls, value: Any) -> Any:
        return parse_image_size(str(value)) if isinstance(value, str | int) else value


class Overrides(Protocol):
    """The options that hold for every model, whatever its own say: the settings of these names. None sets nothing."""

    @property
    def scaling(self) -> str | None: ...  # noqa: D102 - ModelOptions tells of each

    @property
    def image_size(self) -> tuple[int, int] | None: ...  # noqa: D102

    @property
    def outputs(self) -> tuple[str, ...] | None: ...  # noqa: D102

    @property
    def labels(self) -> str | None: ...  # noqa: D102

    @property
    def top_k(self) -> int | None: ...  # noqa: D102


def load_options(code_dirs: Sequence[Path], overrides: Overrides) -> ModelOptions:
    """Return a model's options from the first ``lightbox.json`` in ``code_dirs``; what ``overrides`` sets wins over it.

    Labels given by the name of a file are read from it, relative to ``code_dirs``. Raises ModelOptionsError when the
    file is not valid JSON or holds an unknown key or a wrong value, or when there is no such file of labels.
    """
    path = options_file(code_dirs)
    options = ModelOptions() if path is None else _read(path)
    given = {
        "scaling": overrides.scaling,
        "image_size": overrides.image_size,
        "outputs": overrides.outputs,
        "labels": overrides.labels,
        "top_k": overrides.top_k,
    }
    options = options.model_copy(update={key: value for key, value in given.items() if value is not None})
    if isinstance(options.labels, str):
        setting = "labels" if overrides.labels is None else "LIGHTBOX_LABELS"
        return options.model_copy(update={"labels": _read_labels(setting, options.labels, code_dirs)})
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
        problems = "; ".join(map(_problem, error.errors()))
        raise ModelOptionsError(f"{path}: {problems}") from None


def _problem(detail: Any) -> str:
    key = ".".join(map(str, detail["loc"])) or "the file"
    if detail["type"] == "extra_forbidden":
        known = list(ModelOptions.model_fields)
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"expected {', '.join(known)}"
        return f"{key}: there is no such option; {hint}"
    return f"{key}: {detail['msg']}, got {detail['input']!r}"


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
