"""Problems of the models on disk, found in their files before anything loads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from lightbox.base.machine.links import LEADS_OUT, entries_below, followed
from lightbox.model.options import options_file
from lightbox.model.spec import DEFAULT_SIGNATURE, SignatureSpec, TensorSpec
from lightbox.model_files.foreign_files import POINTER, describe_foreign_folder, is_pointer_file
from lightbox.model_files.layout import LARGEST_VERSION, WEIGHTS_NOTE, ModelOnDisk, is_version
from lightbox.model_files.saved_model import FILE, ModelFileError, check_whole, read_signatures
from lightbox.model_runtime.access import MOST_OPTIONS, access_problem, is_dir, is_file, pass_lack, read_file
from lightbox.model_runtime.formats import (
    FORMATS,
    SAVED_MODEL_FILES,
    ModelFile,
    as_model_file,
    holds_model,
    model_file,
    model_files,
)
from lightbox.model_runtime.formats.signature import FileTensor
from lightbox.model_runtime.wire.dtypes import numpy_name

NOTES = "metadata.yaml"
_TOP_LEVEL = re.compile(r"(\w+):(.*)")
_READ = ContextVar[dict[tuple[Path, str, int], Mapping[str, SignatureSpec]] | None]("signatures", default=None)
"""The signatures that a step has read, by the arguments of ``signatures_of``."""


@contextmanager
def reading_once() -> Iterator[None]:
    """Read the signatures of each version once, for steps that look at the same files again and again."""
    if _READ.get() is not None:
        yield
        return
    token = _READ.set({})
    try:
        yield
    finally:
        _READ.reset(token)


def unusable_versions(model: ModelOnDisk, allowed: Sequence[Path] = ()) -> list[str]:
    """Return a sentence for each version of a model without a model, or with one that cannot be served.

    Links may lead into the folders ``allowed``.
    A model server loads a model without variables and reports it as available; then every prediction fails.
    """
    return [
        problem
        for version, folder in versions_of(model)
        if (problem := version_problem(folder, model.name, version, allowed))
    ]


def version_problem(folder: Path, model: str, version: int, allowed: Sequence[Path] = ()) -> str | None:
    """Return why the version in ``folder`` cannot be served, None if it can. Raises OSError as ``pass_lack``."""
    if outside := _leads_out(folder, allowed):
        return f"{outside} {LEADS_OUT}"
    if problem := access_problem(folder):
        return problem
    if not holds_model(folder):
        if several := [file.path for file in model_files(folder)]:
            names = " and ".join(path.name for path in several)
            return f"{folder} holds {names}: expected one of them, or one named model{several[0].suffix}"
        return f"{folder} holds no {SAVED_MODEL_FILES[0]}{describe_foreign_folder(folder)}"
    try:
        if signatures_of(folder, model, version) and (folder / FILE).exists():
            check_whole(folder)
    except ModelFileError as error:
        return str(error)
    return None


def _leads_out(version: Path, allowed: Sequence[Path]) -> Path | None:
    """Return a file of a version that is a link, or behind one, out of the model's folder; None if there is none.

    The model's folder is that of the version, or the one above if the version is in a numbered folder.
    """
    if is_file(version):  # named by the operator, so it may lead anywhere
        file = as_model_file(version)
        links = file.weights() if file else []
        return next((link for link in links if followed(link, model_folder(link.parent), allowed) is None), None)
    return next((path for path in _read_of(version) if followed(path, model_folder(version), allowed) is None), None)


def model_folder(folder: Path) -> Path:
    """Return the folder of the model of which a folder is a version: the one above, if its name is a number."""
    return folder.parent if is_version(folder.name) else folder


def _read_of(version: Path) -> Iterator[Path]:
    """Yield what is read of a version's folder, the folder first; each before it is looked at."""
    yield version
    try:
        names = sorted(entry.name for entry in version.iterdir())
    except OSError as error:
        pass_lack(error)
        return
    if not set(SAVED_MODEL_FILES).isdisjoint(names):
        for entry, _ in entries_below(version):
            if entry.is_symlink():
                yield Path(entry.path)
        return
    models = [name for name in names if Path(name).suffix in {known.suffix for known in FORMATS}]
    with_notes = {NOTES, *models, *(str(Path(name).with_suffix(".bin")) for name in models)}
    yield from (version / name for name in names if name in with_notes)
    yield from (version / WEIGHTS_NOTE.parent, version / WEIGHTS_NOTE)
    if file := model_file(version):
        yield from file.weights()


def newest_folder(model: ModelOnDisk) -> Path:
    """Return the folder of a model's newest version."""
    return max(versions_of(model), default=(0, model.base_path))[1]


def bytes_of_files(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if is_file(file))


def newest_signatures(model: ModelOnDisk) -> Mapping[str, SignatureSpec]:
    """Return the signatures of a model's newest version by name; none if unreadable. Raises as ``pass_lack``."""
    try:
        version, folder = max(versions_of(model), default=(0, model.base_path))
        return signatures_of(folder, model.name, version)
    except (ModelFileError, OSError) as error:
        pass_lack(error)
        return {}


def versions_of(model: ModelOnDisk) -> list[tuple[int, Path]]:
    """Return the versions of a model with their folders, by number; of a model that is a file, the file."""
    if model.unversioned:
        return [(1, model.base_path / model.inside)]
    folders = (entry for entry in model.base_path.iterdir() if is_version(entry.name) and is_dir(entry))
    return sorted((int(folder.name), folder) for folder in folders)


def show_versions(model: ModelOnDisk, base_path: Path, code_dirs: Sequence[Path]) -> None:
    """Make a folder with a link for each version of a model, and one to its options, for the model servers.

    They load each new folder at once and only once, so partial copies must not appear in it. A server that misses a
    folder of its configuration loads no model any more, so it must be a folder that no one else can remove.
    """
    base_path.mkdir(parents=True)
    for version, place in dict(versions_of(model)).items():
        if version <= LARGEST_VERSION:
            show_version(place, base_path / str(version))
    if options := options_file(code_dirs):
        (base_path / "code").symlink_to(options.parent, target_is_directory=True)


def show_version(place: Path, shown: Path) -> None:
    """Make a link to a version's folder; for a file, a folder with a link to it."""
    if place.is_file():
        shown.mkdir()
        (shown / f"model{place.suffix}").symlink_to(place)
    else:
        shown.symlink_to(place, target_is_directory=True)


def signatures_of(folder: Path, model: str, version: int) -> Mapping[str, SignatureSpec]:
    """Return the signatures of a version as ``read_signatures`` does, or those of a file; none for the text form, which
    only the model server reads."""
    read, key = _READ.get(), (folder, model, version)
    if read is not None and key in read:
        return read[key]
    if (file := model_file(folder)) is not None:
        found = _of_file(file, model, version)
    else:
        found = read_signatures(folder, model, version) if (folder / FILE).exists() else {}
    notes = notes_beside(file.path.parent if file else folder)
    found = {name: replace(signature, notes={**notes, **signature.notes}) for name, signature in found.items()}
    if read is not None:
        read[key] = found
    return found


def notes_of(folder: Path) -> Mapping[str, str]:
    """Return the exporter's notes in the files of a version; none if they cannot be read. Each file is read once."""
    file = model_file(folder)
    found = notes_beside(file.path.parent if file else folder)
    try:
        return {**found, **_notes_in(file, file.path.stat().st_mtime_ns)} if file else found
    except (OSError, ValueError) as error:
        pass_lack(error)
        return found


@lru_cache(maxsize=32)
def _notes_in(file: ModelFile, written: int) -> Mapping[str, str]:
    return file.signature().notes


def notes_beside(folder: Path) -> dict[str, str]:
    """Return the values of the YAML file that Ultralytics writes beside other formats than ONNX, in Python's form."""
    try:
        text = read_file(folder / NOTES, MOST_OPTIONS).decode("utf-8", "replace")
    except OSError as error:
        pass_lack(error)
        return {}
    notes, key = dict[str, str](), ""
    blocks = dict[str, list[str]]()
    for line in text.splitlines():
        if found := _TOP_LEVEL.match(line):
            key, value = found.groups()
            notes[key] = value.strip()
        elif key and not notes[key]:
            blocks.setdefault(key, []).append(line.strip())
    return {key: value for key, value in notes.items() if value} | {
        key: _literal(lines) for key, lines in blocks.items()
    }


def _literal(lines: Sequence[str]) -> str:
    """Return a block of YAML, a list or a mapping of scalars, as a literal of Python."""
    if all(line.startswith("- ") for line in lines):
        return f"[{', '.join(line[2:] for line in lines)}]"
    pairs = (line.partition(":") for line in lines)
    return repr({_scalar(key): _scalar(value) for key, _, value in pairs})


def _scalar(text: str) -> str:
    """Return a scalar of YAML without its quotation marks."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(text[0] * 2, text[0])
    return text


def _of_file(file: ModelFile, model: str, version: int) -> Mapping[str, SignatureSpec]:
    try:
        signature = file.signature()
    except OSError as error:
        pass_lack(error)
        raise ModelFileError(f"{file.path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        pointer = next(filter(is_pointer_file, file.parts()), None)
        why = f"cannot be read as {file.format.title}: {error}"
        raise ModelFileError(f"{pointer} {POINTER}" if pointer else f"{file.path} {why}") from None
    inputs, outputs = _tensors(signature.inputs), _tensors(signature.outputs)
    return {DEFAULT_SIGNATURE: SignatureSpec(model, version, DEFAULT_SIGNATURE, inputs, outputs, signature.notes)}


def _tensors(described: Mapping[str, FileTensor]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(name, numpy_name(tensor.dtype), tensor.shape) for name, tensor in sorted(described.items())
    }
