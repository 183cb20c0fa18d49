"""What is wrong with the models on disk, found in their files before anything loads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lightbox.model.formats import told_of_folder
from lightbox.model.layout import LARGEST_VERSION, SAVED_MODEL_FILES, ModelOnDisk, is_saved_model, is_version
from lightbox.model.options import OPTIONS_FILE, ModelOptions, Overrides, load_options, options_file
from lightbox.model.ranking import ranking_problem
from lightbox.model.saved_model import FILE, SavedModelError, check_whole, read_signatures
from lightbox.model.spec import SignatureSpec, image_input, scaling_problem
from lightbox.transports.base import DEFAULT_SIGNATURE
from lightbox.user_code.paths import find_code


def unusable_versions(model: ModelOnDisk) -> list[str]:
    """Return a sentence for each version of a model that holds no SavedModel, or one that cannot be served.

    A model server loads what has no variables and says that it is available; every prediction fails then.
    """
    return [
        problem for version, folder in versions_of(model) if (problem := version_problem(folder, model.name, version))
    ]


def version_problem(folder: Path, model: str, version: int) -> str | None:
    """Return why the version in ``folder`` cannot be served, None where it can."""
    if not is_saved_model(folder):
        return f"{folder} holds no {SAVED_MODEL_FILES[0]}{told_of_folder(folder)}"
    try:
        if signatures_of(folder, model, version):
            check_whole(folder)
    except SavedModelError as error:
        return str(error)
    return None


def option_problems(model: ModelOnDisk, code_dirs: Sequence[Path], overrides: Overrides) -> Iterator[tuple[bool, str]]:
    """Yield what a model's newest version cannot follow, and whether it is its own lightbox.json that asks for it.

    Raises ModelOptionsError and UserCodeError for what cannot be read in ``code_dirs``.
    """
    options = load_options(code_dirs, overrides)
    return misfits(model.name, newest_signatures(model), options, code_dirs, overrides)


def misfits(
    model: str,
    signatures: Mapping[str, SignatureSpec],
    options: ModelOptions,
    code_dirs: Sequence[Path],
    overrides: Overrides,
) -> Iterator[tuple[bool, str]]:
    """Yield what a version with these signatures cannot follow, as ``option_problems`` does of these ``options``."""
    file = options_file(code_dirs) or OPTIONS_FILE
    # Code of a user's may scale and name classes by itself.
    signature = signatures.get(DEFAULT_SIGNATURE) if find_code(code_dirs) is None else None
    if problem := _misfit_of_outputs(model, signatures, options):
        own = overrides.outputs is None
        yield own, f"{f'{file}: outputs' if own else 'LIGHTBOX_OUTPUTS'}: {problem}"
    if signature and (problem := _misfit_of_scaling(model, signature, options)):
        own = overrides.scaling is None
        yield own, f"{f'{file}: scaling' if own else 'LIGHTBOX_SCALING'}: {problem}"
    if signature and (options.labels is not None or options.top_k is not None):
        key, own = (
            ("labels", overrides.labels is None) if options.labels is not None else ("top_k", overrides.top_k is None)
        )
        if problem := ranking_problem(options, signature.outputs):
            yield own, f"{f'{file}: {key}' if own else f'LIGHTBOX_{key.upper()}'}: {problem}"


def newest_folder(model: ModelOnDisk) -> Path:
    """Return the folder of a model's newest version."""
    return max(versions_of(model), default=(0, model.base_path))[1]


def newest_signatures(model: ModelOnDisk) -> Mapping[str, SignatureSpec]:
    """Return the signatures of a model's newest version by name; none where they cannot be read."""
    try:
        version, folder = max(versions_of(model), default=(0, model.base_path))
        return signatures_of(folder, model.name, version)
    except SavedModelError:
        return {}


def _misfit_of_outputs(model: str, signatures: Mapping[str, SignatureSpec], options: ModelOptions) -> str | None:
    """Return what is wrong with the outputs that are asked for, None where the signatures give them all."""
    known = {name for signature in signatures.values() for name in signature.outputs}
    unknown = [name for name in options.outputs or () if known and name not in known]
    if not unknown:
        return None
    return f"the model {model!r} gives {', '.join(sorted(known))}; got {', '.join(unknown)}"


def _misfit_of_scaling(model: str, signature: SignatureSpec, options: ModelOptions) -> str | None:
    """Return what is wrong with the scaling that is asked for, None where the signature's pixels can have it."""
    wanted = image_input(signature)
    problem = scaling_problem(options.scaling, wanted) if wanted else None
    return f"{problem} in the model {model!r}; use none" if problem else None


def versions_of(model: ModelOnDisk) -> list[tuple[int, Path]]:
    """Return the versions of a model with their folders, by number."""
    if model.unversioned:
        return [(1, model.base_path)]
    folders = (entry for entry in model.base_path.iterdir() if is_version(entry.name) and entry.is_dir())
    return sorted((int(folder.name), folder) for folder in folders)


def show_versions(model: ModelOnDisk, base_path: Path) -> None:
    """Make a folder with a link for each version of a model, for model servers to look at.

    They load what they see at once and only once, so a version that is being copied is not to be among them. A server
    that misses a folder of its configuration loads nothing any more, so it is to be one that nobody else can remove.
    """
    base_path.mkdir(parents=True)
    for version, folder in dict(versions_of(model)).items():
        if version <= LARGEST_VERSION:
            (base_path / str(version)).symlink_to(folder, target_is_directory=True)


def signatures_of(folder: Path, model: str, version: int) -> Mapping[str, SignatureSpec]:
    """Return what ``read_signatures`` does; nothing of the text form, which the model server alone reads."""
    return read_signatures(folder, model, version) if (folder / FILE).exists() else {}
