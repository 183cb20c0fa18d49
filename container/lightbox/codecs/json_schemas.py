"""OpenAPI schemas of JSON bodies with inputs, and an example: zeros of the signature's shapes, or a grey image."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from lightbox.heads import has_objects, parts_of
from lightbox.heads.classes import DEFAULT_TOP_K, other_classes, shape_of_classes
from lightbox.heads.form import PartName
from lightbox.heads.maps import OF_ANOMALIES, OF_CLASSES, map_problem
from lightbox.heads.objects import MOST_OBJECTS
from lightbox.heads.tensorflow import is_detector
from lightbox.images.probe import GREY_PNG
from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.openapi.models import DescribedModel, zeros
from lightbox.openapi.schemas import BASE64, TEXT, Schema, any_of, array, bounded, element, named, nested, ref, struct

EXAMPLES = "Examples"
RESULTS = "Results"
_METHOD_OUTPUTS = ("classes", "scores", "outputs")


def _row(spec: TensorSpec, item: Schema) -> Schema:
    return named(spec, nested(item, None if spec.shape is None else spec.shape[1:]))


def _rows_or_none(specs: Mapping[str, TensorSpec]) -> bool:
    return all(spec.shape is None or spec.shape for spec in specs.values())


def _instances(signature: SignatureSpec) -> list[Schema]:
    """Return the schemas of one instance: a value for the only input, or an object with one for each."""
    rows = {name: _row(spec, bounded(spec)) for name, spec in signature.inputs.items()}
    if len(rows) != 1:
        return [struct(rows)]
    ((name, row),) = rows.items()
    image = signature.image
    forms = [row] if image is None or image.encoded else [row, {"type": "string", "contentEncoding": "base64"}, BASE64]
    return [*forms, struct({name: any_of(forms)})]


def _columns(signature: SignatureSpec) -> list[Schema]:
    """Return the schemas of whole inputs: the only one, or an object with each."""
    whole = {name: named(spec, nested(bounded(spec), spec.shape)) for name, spec in signature.inputs.items()}
    return [*(whole.values() if len(whole) == 1 else ()), struct(whole)]


def request_body(model: DescribedModel) -> Schema:
    """Return the schema of a request of predict, and of classify and regress if a signature can."""
    forms: list[Schema] = []
    for index, signature in enumerate(model.signatures):
        name: dict[str, Schema] = {"signature_name": {"const": signature.name}}
        needed, optional = ({}, name) if model.has_default and index == 0 else (name, {})
        if _rows_or_none(signature.inputs):
            instances = {"instances": array(any_of(_instances(signature)), 1)}
            forms.append(struct(instances | needed, optional))
        forms.append(struct({"inputs": any_of(_columns(signature))} | needed, optional))
        if _takes_examples(signature):
            forms.append(ref(EXAMPLES))
    if model.default and _rows_or_none(model.default.inputs):
        forms.append(array(any_of(_instances(model.default)), 1) | {"description": "The instances themselves."})
    return any_of(forms)


def _takes_examples(signature: SignatureSpec) -> bool:
    return (
        len(signature.inputs) == 1
        and all(spec.is_string for spec in signature.inputs.values())
        and any(name in signature.outputs for name in _METHOD_OUTPUTS)
    )


def response_body(model: DescribedModel) -> Schema:
    """Return the schema of a response: rows, whole outputs, classes by name, or results of classify and regress."""
    forms: list[Schema] = []
    for signature in model.signatures:
        outputs = model.outputs(signature)
        describe = ranked_row if model.options.map is None else map_row
        ranked = None if model.reads_any_body else describe(signature, outputs, model.options)
        if ranked is not None:
            forms.append(struct({"predictions": array(ranked)}))
        if ranked is None or model.options.map or any(spec.shape is None for spec in outputs.values()):
            forms += _plain(outputs)
        if _takes_examples(signature):
            forms.append(ref(RESULTS))
    return any_of(forms)


def _output(spec: TensorSpec, shape: Sequence[int | None] | None) -> Schema:
    """Return nested lists of a shape, or of others: inputs may have other shapes than declared."""
    item = element(spec)
    return named(spec, {} if shape is None or not item else any_of([nested(item, shape), item, {"type": "array"}]))


def _plain(outputs: Mapping[str, TensorSpec]) -> list[Schema]:
    rows = {name: _output(spec, None if spec.shape is None else spec.shape[1:]) for name, spec in outputs.items()}
    whole = {name: _output(spec, spec.shape) for name, spec in outputs.items()}
    by_column = [*(whole.values() if len(whole) == 1 else ()), struct(whole)]
    by_row = next(iter(rows.values())) if len(rows) == 1 else struct(rows)
    forms = [struct({"predictions": array(by_row)})] if _rows_or_none(outputs) else []
    return [*forms, struct({"outputs": any_of(by_column)})]


def _part(name: PartName, options: ModelOptions) -> Schema:
    number, whole = {"type": "number"}, {"type": "integer", "minimum": 0}
    if name == "keypoints":
        count, numbers = options.keypoints or (None, None)
        said = "x and y in the image and, as the third number, a score."
        return array(array(number, numbers or 2, numbers or 3), count or 0, count) | {"description": said}
    if name == "corners":
        return array(array(number, 2, 2), 4, 4) | {"description": "x and y of the corners of the rotated box."}
    if options.masks == "polygon":
        return array(array(whole, 8)) | {"description": "Outlines in the image, x and y in turn."}
    said = "Run lengths as in COCO: by column, the background first; height and width of the image."
    return struct({"size": array(whole, 2, 2), "counts": array(whole, 1)}) | {"description": said}


def _label(options: ModelOptions) -> dict[str, Schema]:
    return {"label": TEXT | ({"enum": sorted({*options.labels})} if options.labels else {})}


def map_row(signature: SignatureSpec, outputs: Mapping[str, TensorSpec], options: ModelOptions) -> Schema | None:
    """Return the schema of a map's classes, or of an anomaly; None for other maps, and for outputs that are none."""
    if options.map not in (*OF_CLASSES, OF_ANOMALIES) or map_problem(options, signature, outputs) is not None:
        return None
    share: Schema = {"type": "number", "description": "Of the pixels of the image."}
    where = {"share": share, "mask": _part("mask", ModelOptions())}
    if options.map == OF_ANOMALIES:
        scored: dict[str, Schema] = {"class": {"enum": [0, 1]}, "score": {"type": "number"}}
        return array(struct(scored, _label(options) | where), 2, 2)
    shown = {"class": {"type": "integer"}, **where}
    return array(struct(shown, _label(options)))


def ranked_row(signature: SignatureSpec, outputs: Mapping[str, TensorSpec], options: ModelOptions) -> Schema | None:
    """Return the schema of one row of classes or objects by name, None if the options name none."""
    if options.labels is None and options.top_k is None and options.detections is None:
        return None
    if options.detections is not None and not has_objects(options, signature, outputs):
        return None
    label, number = _label(options), {"type": "number"}
    if options.detections is not None or is_detector(outputs):
        order = "As the model gives it." if options.detections is None else "Left, top, right, bottom in the image."
        box = array(number, 4, 4) | {"description": order}
        most = options.top_k or (None if options.detections is None else MOST_OBJECTS)
        parts: dict[str, Schema] = {name: _part(name, options) for name in parts_of(options)}
        return array(struct({"class": {"type": "integer"}, "score": number, "box": box, **parts}, label), 0, most)
    if len(outputs) != 1:
        return None
    (spec,) = outputs.values()
    if (
        spec.is_string
        or (spec.shape is not None and len(shape_of_classes(spec.shape)) != 2)
        or other_classes(options, spec) is not None
    ):
        return None
    item: dict[str, Schema] = {"class": {"type": "integer", "minimum": 0}, "score": number}
    named_class = struct(label | item) if options.labels else struct(item, label)
    return array(named_class, 0, options.top_k or DEFAULT_TOP_K)


def _shared() -> dict[str, Schema]:
    """Return the schemas of tfs-method=classify and regress."""
    value = any_of([TEXT, BASE64, {"type": "number"}])
    feature = any_of([value, array(value)])
    features: Schema = {"type": "object", "additionalProperties": feature}
    scored: Schema = {
        "type": "array",
        "prefixItems": [any_of([TEXT, BASE64]), {"type": "number"}],
        "minItems": 2,
        "maxItems": 2,
    }
    return {
        EXAMPLES: struct({"examples": array(features, 1)}, {"context": features, "signature_name": TEXT}),
        RESULTS: struct({"results": array(any_of([array(scored), {"type": "number"}]))}),
    }


SHARED = _shared()
"""The schemas that the bodies of all models share."""


def example(signature: SignatureSpec) -> Any:
    """Return an example request of predict, None if there is no short one."""
    image = signature.image
    if image is not None and not image.encoded:
        return {"instances": [{"b64": b64encode(GREY_PNG).decode()}]}
    found = zeros(signature)
    if found is None:
        return None
    whole = {name: zero.tolist() for name, zero in found.items()}
    return {"inputs": next(iter(whole.values())) if len(whole) == 1 else whole}
