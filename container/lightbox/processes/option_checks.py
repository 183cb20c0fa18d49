"""What the newest version of a model cannot follow of its options: outputs, scaling and labels that do not fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lightbox.model.checks import newest_signatures
from lightbox.model.layout import ModelOnDisk
from lightbox.model.options import OPTIONS_FILE, ModelOptions, Overrides, load_options, options_file
from lightbox.model.ranking import ranking_problem
from lightbox.model.spec import DEFAULT_SIGNATURE, SignatureSpec, image_input, scaling_problem
from lightbox.user_code.paths import find_code


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
