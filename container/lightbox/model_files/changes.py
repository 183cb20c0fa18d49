"""Whether a new version of a model can answer the requests that the current version answers."""

from __future__ import annotations

from collections.abc import Mapping

from lightbox.model.spec import SignatureSpec, TensorSpec

_SAME_CLASS = {"bfloat": "float", "uint": "int"}


def change_problem(current: Mapping[str, SignatureSpec], coming: Mapping[str, SignatureSpec]) -> str | None:
    """Return what a caller of the current version's signatures would miss in a new version; None for nothing.

    Inputs and outputs need the same names, classes of dtype (float32 and float64 are one) and ranks. An image's size
    and pixels may change without notice to callers. Open dimensions and ranks fit everything.
    """
    problems = (_problem(name, was, coming) for name, was in current.items())
    return next(filter(None, problems), None)


def _problem(name: str, was: SignatureSpec, coming: Mapping[str, SignatureSpec]) -> str | None:
    signature, version = f"signature {name!r}", f"of version {was.version}"
    new = coming.get(name)
    if new is None:
        return f"expected the {signature} {version}, got {', '.join(sorted(coming))}"
    image, new_image = was.image, new.image
    if image and not new_image:
        return f"{signature}: expected an image, as {_listed(was.inputs)} {version}, got {_listed(new.inputs)}"
    if image and new_image:
        same_inputs = (image.name, image.encoded) == (new_image.name, new_image.encoded)
    else:
        same_inputs = _fit(was.inputs, new.inputs)
    if not same_inputs:
        return f"{signature}: expected the inputs {_listed(was.inputs)} {version}, got {_listed(new.inputs)}"
    if not _fit(was.outputs, new.outputs):
        return f"{signature}: expected the outputs {_listed(was.outputs)} {version}, got {_listed(new.outputs)}"
    return None


def _fit(was: Mapping[str, TensorSpec], new: Mapping[str, TensorSpec]) -> bool:
    return was.keys() == new.keys() and all(_fits(spec, new[name]) for name, spec in was.items())


def _fits(was: TensorSpec, new: TensorSpec) -> bool:
    same_rank = was.shape is None or new.shape is None or len(was.shape) == len(new.shape)
    return same_rank and _dtype_class(was) == _dtype_class(new)


def _dtype_class(spec: TensorSpec) -> str:
    name = spec.dtype.rstrip("0123456789")
    return _SAME_CLASS.get(name, name)


def _listed(tensors: Mapping[str, TensorSpec]) -> str:
    return ", ".join(str(tensors[name]) for name in sorted(tensors)) or "none"
