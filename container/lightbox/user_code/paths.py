"""The places of ``inference.py``, and hints for it and the files of options where they are misplaced."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings
from lightbox.model.options import CODE, INFERENCE, OPTIONS_FILE
from lightbox.model_runtime.access import is_dir, is_file
from lightbox.model_runtime.deadline import check_deadline

FILE_NAME = INFERENCE
LABELS = "labels.txt"
LIB = "lib"
REQUIREMENTS = "requirements.txt"
BUILD_ARGUMENT = "--build-arg HANDLER_PACKAGES=aws"
WITH_BUILD_ARGUMENT = {"joblib": "joblib", "pandas": "pandas", "scipy": "scipy", "sklearn": "scikit-learn"}
"""Modules of requirements/handlers_aws.in and their packages."""
OTHERS = {
    "Cython": "cython",
    "PIL": "pillow",
    "aiohttp": "aiohttp",
    "awscli": "awscli",
    "boto3": "boto3",
    "botocore": "botocore",
    "cloudpickle": "cloudpickle",
    "cv2": "opencv-python-headless",
    "falcon": "falcon",
    "gevent": "gevent",
    "keras": "keras",
    "packaging": "packaging",
    "skimage": "scikit-image",
    "tensorflow": "tensorflow-cpu",
    "torch": "torch",
    "transformers": "transformers",
    "yaml": "pyyaml",
}
"""Other common modules of handlers: those of AWS's container, and packages with another name than the module's."""


def find_inference(code_dirs: Sequence[Path]) -> Path | None:
    """Return the first ``inference.py`` in ``code_dirs``, or None."""
    return next((folder / FILE_NAME for folder in code_dirs if _is_there(folder / FILE_NAME)), None)


def importable(code_dirs: Sequence[Path], settings: Settings) -> tuple[Path, ...]:
    """Return the folders whose code may run: all, or the operator's alone if LIGHTBOX_MODEL_CODE forbids models'."""
    return tuple(folder for folder in code_dirs if settings.model_code or not _is_of_models(folder, settings))


def refuse_code(code_dirs: Sequence[Path], settings: Settings) -> None:
    """Raise UserCodeError for code in models' folders, if LIGHTBOX_MODEL_CODE forbids it."""
    forbidden = [folder for folder in code_dirs if not settings.model_code and _is_of_models(folder, settings)]
    for path in (folder / name for folder in forbidden for name in (FILE_NAME, REQUIREMENTS, LIB)):
        if _is_there(path):
            raise UserCodeError(f"{path} is code, which LIGHTBOX_MODEL_CODE=false forbids in models")


def _is_of_models(folder: Path, settings: Settings) -> bool:
    return folder.name == CODE and folder != settings.code_dir


def find_code(code_dirs: Sequence[Path]) -> Path | None:
    """Return the same as ``find_inference``; raise UserCodeError if there is only a misplaced file."""
    file = find_inference(code_dirs)
    if file is None:
        refuse_misplaced(code_dirs, FILE_NAME)
    return file


def find_requirements(code_dirs: Sequence[Path]) -> list[Path]:
    """Return every ``requirements.txt`` in ``code_dirs``, each once."""
    files = (folder / REQUIREMENTS for folder in code_dirs)
    return [file for file in dict.fromkeys(files) if _is_there(file)]


def has_lib(requirements: Path) -> bool:
    """Return whether a ``lib/`` with packages is beside a ``requirements.txt``."""
    return (requirements.parent / LIB).is_dir()


def refuse_misplaced(code_dirs: Sequence[Path], *names: str) -> None:
    """Raise UserCodeError for a file of these names, such as ``inference.py``, in a wrong place or misspelled.

    Checks the parent of each ``code/`` folder, similar folders there, and files in ``code/`` with similar names; of a
    model's own folder, which comes first, also the version directories and their ``code/``. Beside the code for all
    models a folder named by digits may be another model.
    """
    for code in code_dirs:
        for folder in _wrong_places(code, has_versions=code == code_dirs[0]):
            if name := next((name for name in names if is_file(folder / name)), None):
                raise UserCodeError(f"{folder / name} is not where it is looked for: move it to {code / name}")
        for name in names:
            if not _is_there(code / name) and (misnamed := _misnamed(code, name)):
                raise UserCodeError(f"{misnamed} is not called {name}: rename it to {code / name}")


def refuse_misplaced_options(code_dirs: Sequence[Path], has_labels: bool) -> None:
    """Raise UserCodeError as ``refuse_misplaced`` does, for ``lightbox.json`` and, without labels, a file of them."""
    refuse_misplaced(code_dirs, OPTIONS_FILE, *([] if has_labels else [LABELS]))
    for code in () if has_labels else code_dirs:
        if is_file(code / LABELS):
            raise UserCodeError(f'{code / LABELS} is not read: set "labels": "{LABELS}" in {code / OPTIONS_FILE}')


def _is_there(path: Path) -> bool:
    """Return whether a path exists, also as a folder or a broken link, whose error is then reported."""
    return os.path.lexists(path)


def _wrong_places(code: Path, has_versions: bool) -> Iterator[Path]:
    model = code.parent
    yield from (model, code / "code")
    if is_dir(model):
        # The names come first: there may be thousands of models beside the code for all, and each looks here.
        with os.scandir(model) as entries:
            names = sorted(entry.name for entry in entries if entry.name != code.name)
        yield from (model / name for name in names if _is_like_code(name.lower()) and is_dir(model / name))
        for version in (model / name for name in names if has_versions and name.isdigit() and is_dir(model / name)):
            yield from (version, version / "code")


def _is_like_code(name: str) -> bool:
    may_be = 3 <= len(name) <= 6 and len(set("code").intersection(name)) >= 3  # else no match, which takes longer
    return may_be and bool(difflib.get_close_matches(name, ["code"], cutoff=0.8))


def _misnamed(code: Path, name: str) -> Path | None:
    if not is_dir(code):
        return None
    check_deadline()  # there may be thousands of files
    stem, suffix = name.split(".")
    files = [entry for entry in sorted(code.iterdir()) if is_file(entry) and _may_be(entry.name.lower(), suffix)]
    stems = {entry.name.lower().partition(".")[0]: entry for entry in files}
    close = difflib.get_close_matches(stem, stems, n=1, cutoff=0.85)
    return stems[close[0]] if close else None


def _may_be(name: str, suffix: str) -> bool:
    """Return whether a file may be one with this suffix, misnamed: a program keeps its own."""
    return name.endswith((".py", ".py.txt")) == (suffix == "py")


def how_to_install(module: str) -> str:
    """Return how to install a missing module: the package, the image's build argument, the line to add."""
    package = WITH_BUILD_ARGUMENT.get(module) or OTHERS.get(module)
    if package is None:
        return f"put the package into code/{REQUIREMENTS} or code/{LIB}/"
    line = f"add the line {package} to code/{REQUIREMENTS}, or put the package {package} into code/{LIB}/"
    if module in WITH_BUILD_ARGUMENT:
        return f"use an image that is built with {BUILD_ARGUMENT}, {line}"
    return line


class UserCodeError(StartError):
    """A sentence that names the file and its problem."""
