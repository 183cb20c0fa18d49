"""Answers that have names: classes to rank for ``labels`` and ``top_k``, objects for ``detections``.

A form of objects is a module here, with a subclass of ``Form``: which outputs it has, and the objects in them.
To add one, write it, add a line to ``FORMS`` here, and its name to ``DetectionsName`` in ``lightbox.model.options``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lightbox.base.errors import ModelFailed
from lightbox.base.lazy_numpy import np
from lightbox.heads.classes import classes_of_images_problem
from lightbox.heads.detr import Detr
from lightbox.heads.form import Area, Form, PartName, Shapes, described
from lightbox.heads.libreyolo import LibreYolo, LibreYoloX
from lightbox.heads.maps import map_problem
from lightbox.heads.mmdet import MmDet
from lightbox.heads.objects import Objects
from lightbox.heads.rtdetr import RtDetr
from lightbox.heads.tensorflow import TensorFlow, is_detector
from lightbox.heads.torchvision import Torchvision, TorchvisionPoses, TorchvisionSegments
from lightbox.heads.ultralytics import Boxes, Poses, RotatedBoxes, Segments, names_in
from lightbox.heads.yolov5 import YoloV5
from lightbox.model.options import DetectionsName, ModelOptions
from lightbox.model.spec import Array, SignatureSpec, TensorSpec

FORMS: Mapping[DetectionsName, Form] = {
    "ultralytics": Boxes(),
    "ultralytics-segment": Segments(),
    "ultralytics-pose": Poses(),
    "ultralytics-obb": RotatedBoxes(),
    "ultralytics-v5": YoloV5(),
    "libreyolo": LibreYolo(),
    "libreyolo-yolox": LibreYoloX(),
    "detr": Detr(),
    "rtdetr": RtDetr(),
    "mmdet": MmDet(),
    "tf": TensorFlow(),
    "torchvision": Torchvision(),
    "torchvision-segment": TorchvisionSegments(),
    "torchvision-pose": TorchvisionPoses(),
}
"""Forms of objects, by the option ``detections``."""


def has_objects(options: ModelOptions, signature: SignatureSpec, outputs: Collection[str]) -> bool:
    """Return whether these outputs have the form of ``detections``; another signature may have others."""
    chosen = {name: signature.outputs[name] for name in outputs}
    return options.detections is not None and _objects_problem(options, signature, chosen) is None


def find_objects(
    outputs: Mapping[str, Array], size: tuple[int, int], options: ModelOptions, areas: Sequence[Area] = ()
) -> list[Objects]:
    """Return the objects of each row of a batch, for inputs of a ``size``: width, height. Images have these ``areas``.

    Raises ModelFailed for outputs of another form.
    """
    assert options.detections is not None
    numbers = {
        name: array.astype(np.float32, copy=False) for name, array in outputs.items() if array.dtype.kind in "iuf"
    }
    shapes = {name: array.shape for name, array in outputs.items()}
    if problem := shapes_problem(options, shapes, len(numbers) < len(outputs)):
        raise ModelFailed(f"detections: {problem}")
    with np.errstate(all="ignore"):  # NaN is not an object
        form = FORMS[options.detections]
        return form.objects_of_images(numbers, size, options, areas) if areas else form.objects(numbers, size, options)


def parts_of(options: ModelOptions) -> tuple[PartName, ...]:
    """Return what the objects of ``detections`` have besides a class, a score and a box."""
    return FORMS[options.detections].parts if options.detections else ()


def ranking_problem(options: ModelOptions, signature: SignatureSpec) -> str | None:
    """Return why a model has no classes to rank or objects to find, or another number than labels; None if it has."""
    outputs = signature.outputs
    chosen = {name: spec for name, spec in outputs.items() if not options.outputs or name in options.outputs}
    if options.map is not None:
        return map_problem(options, signature, chosen)
    if options.detections is not None:
        return _objects_problem(options, signature, chosen) or _names_problem(options, signature, chosen)
    return None if is_detector(chosen) else classes_of_images_problem(options, chosen)


def _names_problem(options: ModelOptions, signature: SignatureSpec, outputs: Mapping[str, TensorSpec]) -> str | None:
    """Return why a start must know the number of classes, None if it need not, or does."""
    assert options.detections is not None
    form, shapes = FORMS[options.detections], {name: spec.shape for name, spec in outputs.items()}
    if options.labels is not None or names_in(signature.notes) is not None or not form.is_ambiguous(shapes):
        return None
    return f"expected labels, as no metadata of the file have names of classes{form.other_rows}"


def _objects_problem(options: ModelOptions, signature: SignatureSpec, outputs: Mapping[str, TensorSpec]) -> str | None:
    assert options.detections is not None
    wanted = signature.image
    if wanted is None or wanted.encoded:
        takes = ", ".join(map(str, signature.inputs.values()))
        hint = "; set layout, which its shape leaves open" if signature.open_input else ""
        return f"expected a model that takes pixels, in which boxes can be placed; this one takes {takes}{hint}"
    form, shapes = FORMS[options.detections], {name: spec.shape for name, spec in outputs.items()}
    if problem := form.problem(outputs, signature.notes, options) or outputs_problem(options, outputs):
        return problem
    return classes_problem(options, shapes, names_in(signature.notes))


def classes_problem(options: ModelOptions, shapes: Shapes, names: int | None = None) -> str | None:
    """Return why outputs have another number of classes than there are labels or ``names`` in a file, else None."""
    assert options.detections is not None
    form = FORMS[options.detections]
    known = [*form.classes(shapes, options)]
    for count, of in ((names, "its metadata have"), (options.labels and len(options.labels), "got")):
        if known and count is not None and count not in known:
            return f"expected a label for each of the {known[0]} classes, {of} {count}{form.other_rows}"
    return None


def outputs_problem(options: ModelOptions, outputs: Mapping[str, TensorSpec]) -> str | None:
    """Return why outputs cannot be of the form of ``detections``, by their known shapes; None if they can."""
    shapes = {name: spec.shape for name, spec in outputs.items()}
    return shapes_problem(options, shapes, any(spec.is_string for spec in outputs.values()))


def shapes_problem(options: ModelOptions, shapes: Shapes, have_texts: bool = False) -> str | None:
    """Return why outputs of these shapes cannot be of the form of ``detections``; None if they can."""
    assert options.detections is not None
    form = FORMS[options.detections]
    if form.fits(shapes, options) and not have_texts:
        return None
    return f"expected {form.expected} for {options.detections!r}; the model gives {described(shapes)}"
