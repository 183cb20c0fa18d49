"""Options that the newest version of a model cannot follow: outputs, scaling and labels that do not fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lightbox.core.settings import Settings
from lightbox.machine.access import is_file
from lightbox.model.checks import newest_signatures
from lightbox.model.image_options import image_problems
from lightbox.model.layout import ModelOnDisk, is_version
from lightbox.model.options import OPTIONS_FILE, ModelOptions, OptionSettings, load_options, options_file
from lightbox.model.ranking import ranking_problem
from lightbox.model.spec import DEFAULT_SIGNATURE, SignatureSpec, image_input
from lightbox.user_code.paths import UserCodeError, find_code, refuse_misplaced_options


def option_problems(model: ModelOnDisk, code_dirs: Sequence[Path], settings: Settings) -> Iterator[tuple[bool, str]]:
    """Yield the options that a model's newest version cannot follow, and whether they are from its own lightbox.json.

    Raises ModelOptionsError and UserCodeError for unreadable files in ``code_dirs``.
    """
    options = load_options(code_dirs, settings)
    if is_file(model.base_path):
        folder = model.base_path.parent
        for place in (folder, folder / "code", *([folder.parent / "code"] if is_version(folder.name) else [])):
            if is_file(place / OPTIONS_FILE):
                whole = folder.parent if is_version(folder.name) else folder
                raise UserCodeError(
                    f"{place / OPTIONS_FILE} is not read for a model that is a file: name the folder {whole}, "
                    "or set the options by LIGHTBOX_OPTIONS"
                )
    return misfits(model.name, newest_signatures(model), options, code_dirs, settings)


def misfits(
    model: str,
    signatures: Mapping[str, SignatureSpec],
    options: ModelOptions,
    code_dirs: Sequence[Path],
    settings: Settings,
) -> Iterator[tuple[bool, str]]:
    """Yield which of these ``options`` a version with these signatures cannot follow, as ``option_problems`` does."""
    # The user's code may scale and name classes by itself.
    code = find_code(code_dirs)
    refuse_misplaced_options(code_dirs, has_labels=options.labels is not None or code is not None)
    signature = signatures.get(DEFAULT_SIGNATURE) if code is None else None
    found = {"outputs": _misfit_of_outputs(model, signatures, options)}
    if wanted := image_input(signature.with_layout(options.layout)) if signature else None:
        found |= {key: f"{problem}; the model is {model!r}" for key, problem in image_problems(options, wanted)}
    for key in ("detections", "labels", "top_k"):
        if signature and getattr(options, key) is not None:
            problem = ranking_problem(options, signature.with_layout(options.layout))
            found[key] = problem and f"{problem}; the model is {model!r}"
            break
    for key, problem in found.items():
        variable = settings.of(OptionSettings).variable(key)
        if problem:
            yield variable is None, f"{variable or f'{options_file(code_dirs) or OPTIONS_FILE}: {key}'}: {problem}"


def _misfit_of_outputs(model: str, signatures: Mapping[str, SignatureSpec], options: ModelOptions) -> str | None:
    """Return the problem with the wanted outputs, None if the signatures have them all."""
    known = {name for signature in signatures.values() for name in signature.outputs}
    unknown = [name for name in options.outputs or () if known and name not in known]
    if not unknown:
        return None
    return f"the model {model!r} gives {', '.join(sorted(known))}; got {', '.join(unknown)}"
