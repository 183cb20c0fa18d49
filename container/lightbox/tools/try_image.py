"""``lightbox try``: images under each fit and scaling, side by side: with which the model gives the right class."""

from __future__ import annotations

import http
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from lightbox.base.control_characters import escape
from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.cli.setting_options import SettingsCommand, named_model_argument
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.image import ImageCodec
from lightbox.codecs.top_k import ranked_rows
from lightbox.images.decode import is_image
from lightbox.images.preparation import Fit
from lightbox.model.image_options import image_problems
from lightbox.model.options import ModelOptions
from lightbox.model.presets import with_preset
from lightbox.model.spec import DEFAULT_SIGNATURE, ImageInput, ModelCall, SignatureSpec
from lightbox.model_files.checks import newest_folder, newest_signatures, show_version, version_problem
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import model_options
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.models_on_disk import code_dirs, find_model, shared_code_dirs, unpacked
from lightbox.supervisor.starting.scaling_report import PIXELS, scaling_line
from lightbox.tools.harness import http_client
from lightbox.tools.harness.server_process import ServerFailed
from lightbox.tools.harness.stack import Stack
from lightbox.tools.harness.tables import padded_table

TOP, MOST_NAMED = 5, 3
INTERRUPTED = 130
SECONDS_EACH = 60.0
_PROGRESS_SECONDS = 10.0
_SCORES, _CLASSES = "detection_scores", "detection_classes"
_LABELLED = "a folder with a folder of images for each class, named by its label or number"
_HARDER = f"take an image that is harder to classify, or {_LABELLED}"
_OVERRIDES = (
    "LIGHTBOX_MODELS",
    "LIGHTBOX_OPTIONS",
    "LIGHTBOX_SCALING",
    "LIGHTBOX_LABELS",
    "SAGEMAKER_TFS_DEFAULT_MODEL_NAME",
)
"""Settings that would win over the options that the copy of the model has."""
_STOP_SECONDS = 60.0
"""A stack that is stopped takes a second, and more on a busy machine; one that is killed leaves its files behind."""
_SUPERVISOR = "[lightbox] "
_REFUSED = f"{_SUPERVISOR}cannot start:"
_STOPPING, _KILLED = "stopping: accepted requests finish first", "did not stop in time and is killed"

_OWN_SETTINGS = {
    "LIGHTBOX_LOG_FORMAT": "text",
    "LIGHTBOX_DRAIN_SECONDS": "1",
    # On a GPU the stacks share its memory instead of each taking all of it.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
"""The settings of the stack that do not affect its responses."""

_UNWANTED = (
    "SAGEMAKER_MULTI_MODEL",
    "LIGHTBOX_KSERVE_GRPC_PORT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "LIGHTBOX_TLS_CERT",
    "LIGHTBOX_TLS_KEY",
    "LIGHTBOX_TLS_CLIENT_CA",
    "LIGHTBOX_HOSTS",
)
"""Settings of the service that would take its ports, report made-up requests as its own, or ask for TLS or its name."""


class Way(NamedTuple):
    """One way to make pixels of an image."""

    fit: str
    scaling: str

    def __str__(self) -> str:
        return f"{self.fit} {self.scaling}"


class TryRefused(Exception):
    """Nothing can be compared; the message is one sentence."""


@click.command("try", cls=SettingsCommand, epilog="Example: lightbox try ./models/cats --image photo.jpg")
@named_model_argument
@click.option("--image", type=click.Path(path_type=Path), required=True, help=f"Image, or {_LABELLED}.")
def command(name: str | None, image: Path) -> int:
    """Compare a model's predictions under each fit and scaling.

    For an image, it prints them side by side. For a folder of labelled images, it prints how many of them each
    combination classifies correctly. MODEL is a path, or the name of a model in LIGHTBOX_MODEL_DIR; by default the
    default model. User code does not run.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with unpacked(load_settings()) as settings:
            return _run(settings, name, image)
    except KeyboardInterrupt:
        log("interrupted: all started processes are stopped")
        return INTERRUPTED
    except (TryRefused, LookupError) as error:
        log(str(error))
        return 1


def _run(settings: Settings, name: str | None, image: Path) -> int:
    model = find_model(name, settings)
    if problem := version_problem(newest_folder(model), model.name, 0, settings.linked_folders):
        raise TryRefused(problem)
    folders = code_dirs(model, shared_code_dirs(settings))
    options = model_options(model, folders, settings)
    signature, wanted = _input_of(model, options)
    labels = options.labels if isinstance(options.labels, tuple) else ()
    classes, bodies, described = _labelled(image, labels) if image.is_dir() else ([], *_one(image))
    ways = ways_of(options, wanted)
    log(f"starting {model.name}; {described}, {len(ways)} ways")
    responses = _responses(model, signature, options, ways, bodies)
    print(f"{model.name}, {described}: {_title(bool(classes), options.detections is not None)}\n")
    for line in accuracy_table(responses, classes) if classes else side_by_side(responses, labels):
        print(escape(line))
    if said := scaling_line(model, folders, settings):
        print(f"\n{said}")
    return 0


def _input_of(model: ModelOnDisk, options: ModelOptions) -> tuple[SignatureSpec, ImageInput]:
    signature = newest_signatures(model).get(DEFAULT_SIGNATURE)
    if signature is not None:
        signature = signature.with_layout(options.layout)
        wanted = signature.image
        if wanted is not None and not wanted.encoded:
            return signature, wanted
    takes = ", ".join(map(str, signature.inputs.values())) if signature else f"no signature {DEFAULT_SIGNATURE}"
    raise TryRefused(f"MODEL: expected one that takes an image as pixels; {model.name} has {takes}")


def ways_of(options: ModelOptions, target: ImageInput) -> dict[Way, ModelOptions]:
    """Return the fits and scalings that a model's input can have, each with options that are the model's own else.

    Two scalings come with the other order of channels, too.
    """
    ways, other = {}, "rgb" if options.channels == "bgr" else "bgr"
    for fit in map(str, Fit):
        for name in (*PIXELS, *(f"{scaling} {other}" for scaling in ("none", "unit"))):
            scaling, _, channels = name.partition(" ")
            changes = {key: getattr(options, key) for key in options.model_fields_set if key != "preset"}
            changes |= {"fit": fit, "scaling": scaling, "channels": channels or options.channels}
            if fit != options.fit:
                changes |= {"resize_shorter": None, "crop_pct": None, "pad": None, "stride": None}
            if scaling != options.scaling:
                changes |= {"mean": None, "std": None}
            own = ModelOptions().model_copy(update=with_preset(changes))
            if not list(image_problems(own, target)):
                ways[Way(fit, name)] = own
    return ways


def _one(image: Path) -> tuple[list[bytes], str]:
    body = _image_to_send(image)
    return [body], f"{image.name}, {len(body) / 1000:.0f} kB"


def _image_to_send(path: Path) -> bytes:
    """Return the bytes of an image. Raises TryRefused."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise TryRefused(f"--image: {path} cannot be read: {error.strerror}") from None
    if not is_image(body):
        raise TryRefused(f"--image: {path} is no image of a format that Lightbox reads")
    return body


def _labelled(folder: Path, labels: Sequence[str]) -> tuple[list[int], list[bytes], str]:
    """Return the class of each image of a folder with labels, the images, and a short description."""
    classes, bodies = list[int](), list[bytes]()
    for place in _visible(folder.iterdir()):
        if not place.is_dir() or (place.name not in labels and not place.name.isdecimal()):
            raise TryRefused(f"--image: expected {_LABELLED}; got {place.name!r}")
        number = labels.index(place.name) if place.name in labels else int(place.name)
        images = _visible(place.iterdir())
        classes += [number] * len(images)
        bodies += map(_image_to_send, images)
    if not bodies:
        raise TryRefused(f"--image: {folder} holds no images in folders: expected {_LABELLED}")
    return classes, bodies, f"{len(bodies)} images of {len(set(classes))} classes"


def _visible(paths: Iterable[Path]) -> list[Path]:
    """Return paths in order, without hidden ones."""
    return sorted(path for path in paths if not path.name.startswith("."))


def _title(labelled: bool, of_objects: bool) -> str:
    if labelled:
        return "how many each way classifies right"
    return f"the best {TOP} of each fit and scaling, as class, label, score{', box' if of_objects else ''}"


def _responses(
    model: ModelOnDisk,
    signature: SignatureSpec,
    options: ModelOptions,
    ways: Mapping[Way, ModelOptions],
    bodies: Sequence[bytes],
) -> dict[Way, list[Any]]:
    """Return the predictions for the images, JSON, under each way; their pixels are made here, as in a worker."""
    codec = ImageCodec(CodecOptions())
    responses: dict[Way, list[Any]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="lightbox-try-") as folder:
        _copy(model, Path(folder, model.name), options)
        own = {"LIGHTBOX_MODEL_DIR": folder, "SAGEMAKER_GUNICORN_WORKERS": "1", **dict.fromkeys(_OVERRIDES, "")}
        own["LIGHTBOX_LINKED_FOLDERS"] = "/"  # the copy is a link; the model's own were checked
        stack = _start(own)
        try:
            stack.until_ready()
            announced = time.monotonic()
            with http_client.Client(stack.port) as client:
                for number, body in enumerate(bodies):
                    if time.monotonic() > announced + _PROGRESS_SECONDS:
                        announced = time.monotonic()
                        log(f"{number} of {len(bodies)} images")
                    for way, its_options in ways.items():
                        call = _call(codec, body, signature, its_options)
                        responses[way].append(_ask(client, call, its_options))
        except ServerFailed as error:
            why = _reason(error).replace(str(Path(folder, model.name)), str(model.base_path))
            raise TryRefused(f"{model.name} cannot be served: {why}") from None
        finally:
            stack.close(_STOP_SECONDS)
    return responses


def _copy(model: ModelOnDisk, folder: Path, options: ModelOptions) -> None:
    """Make a model of links that returns its raw outputs; labels are added here."""
    (folder / "code").mkdir(parents=True)
    show_version(newest_folder(model), folder / "1")
    kept = options.model_dump(include={"outputs", "engine", "precision", "layout"}, exclude_none=True)
    (folder / "code" / "lightbox.json").write_text(json.dumps({**kept, "recipe": "none"}))


def _start(settings: Mapping[str, str]) -> Stack:
    """Start a stack with these settings over those of this process."""
    present = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    return Stack(_OWN_SETTINGS | dict(settings), present, ends_with_parent=True)


def _reason(error: ServerFailed) -> str:
    """Return why a start was refused or given up, which the supervisor says last, in one sentence."""
    if not error.ended:
        return error.reason
    lines = error.log.splitlines()
    refused = next((number for number, line in enumerate(lines, start=1) if line.endswith(_REFUSED)), None)
    if refused:
        reasons = lines[refused:]
    else:
        said = [text for _, process, text in (line.partition(_SUPERVISOR) for line in lines) if process]
        after = said[said.index(_STOPPING) + 1 :] if _STOPPING in said else said
        reasons = [line for line in after if not line.endswith(_KILLED)]
    return " ".join(reasons) or error.reason


def _call(codec: ImageCodec, body: bytes, signature: SignatureSpec, options: ModelOptions) -> ModelCall:
    try:
        return codec.decode([body], signature, options, RequestContext(SECONDS_EACH))
    except LightboxError as error:
        raise TryRefused(f"--image: {error.message}") from None


def _ask(client: http_client.Client, call: ModelCall, options: ModelOptions) -> Any:
    """Return the prediction: the objects with their boxes, if the model's options decode them, else the outputs."""
    file = BytesIO()
    np.save(file, next(iter(call.inputs.values())))
    headers = {"Content-Type": "application/x-npy", "Accept": "application/json"}
    response = client.send("POST", "/invocations", file.getvalue(), headers)
    content = json.loads(response.body)
    if response.status != http.HTTPStatus.OK:
        raise TryRefused(f"--image: the model answers {response.status}: {content.get('error', content)}")
    by_row = "predictions" in content
    prediction = content["predictions"][0] if by_row else content["outputs"]
    if options.detections is None:
        return prediction
    names = options.outputs or tuple(call.signature.outputs)
    named = prediction if isinstance(prediction, dict) else {names[0]: prediction}
    outputs = {name: np.asarray([values] if by_row else values, np.float32) for name, values in named.items()}
    rows = ranked_rows(outputs, options, call)
    return prediction if rows is None else json.loads(rows[0])


def side_by_side(responses: Mapping[Way, Sequence[Any]], labels: Sequence[str]) -> list[str]:
    """Return a table of one image for each fit, and a sentence where all ways give it the same class."""
    lines = []
    for fit in dict.fromkeys(way.fit for way in responses):
        columns = {way.scaling: best(found, labels) for way, (found,) in responses.items() if way.fit == fit}
        depth = max(map(len, columns.values()))
        rows = [[column[row] if row < len(column) else "" for column in columns.values()] for row in range(depth)]
        lines += [f"fit {fit}", "", *padded_table(list(columns), rows), ""]
    firsts = {pairs[0][0] for (prediction,) in responses.values() if (pairs := _ranked(_outputs(prediction)))}
    alike = len(firsts) == 1 and len(responses) > 1
    return lines[:-1] + ([f"\nEach way gives the same class: {_HARDER}"] if alike else [])


def accuracy_table(responses: Mapping[Way, Sequence[Any]], classes: Sequence[int]) -> list[str]:
    """Return the table of a folder with labels, the best way first, and a sentence where the best are several."""
    right = {
        way: sum(
            (_ranked(_outputs(prediction)) or [(-1, 0.0)])[0][0] == number
            for prediction, number in zip(predictions, classes, strict=True)
        )
        for way, predictions in responses.items()
    }
    ways = sorted(right, key=lambda way: -right[way])
    rows = [[*way, f"{right[way]} of {len(classes)}", f"{right[way] / len(classes):.1%}"] for way in ways]
    firsts = [str(way) for way in ways if right[way] == right[ways[0]]]
    named = f"{len(firsts)} ways" if len(firsts) > MOST_NAMED else " and ".join(firsts)
    table = padded_table(["fit", "scaling", "right", "accuracy"], rows)
    return table + ([f"\n{named} are alike: {_HARDER}"] if len(firsts) > 1 else [])


def best(prediction: Any, labels: Sequence[str]) -> list[str]:
    """Return ``class label score`` of the best classes of one prediction, the best first; of objects also the box.

    Without scores of classes, it is the beginning of each output as JSON.
    """
    if isinstance(prediction, list) and all(isinstance(item, dict) for item in prediction):
        return [_object_line(item) for item in prediction[:TOP]] or ["no object"]
    outputs = _outputs(prediction)
    ranked = _ranked(outputs)
    if ranked is None:
        return [f"{name} {json.dumps(values)[:40]}".strip() for name, values in outputs.items()]
    return [_line(number, labels, score) for number, score in ranked[:TOP]]


def _outputs(prediction: Any) -> Mapping[str, Any]:
    return prediction if isinstance(prediction, dict) else {"": prediction}


def _ranked(outputs: Mapping[str, Any]) -> list[tuple[int, float]] | None:
    """Return class and score, the best first; None without scores of classes."""
    if _SCORES in outputs and _CLASSES in outputs:
        pairs = [(int(number), score) for number, score in zip(outputs[_CLASSES], outputs[_SCORES], strict=True)]
    else:
        scores = next((values for values in outputs.values() if _are_scores(values)), None)
        if scores is None:
            return None
        pairs = list(enumerate(scores))
    return sorted(pairs, key=lambda pair: -pair[1])


def _object_line(item: Mapping[str, Any]) -> str:
    box = ",".join(f"{side:.0f}" for side in item["box"])
    return " ".join(filter(None, (str(item["class"]), item.get("label"), f"{item['score']:.3f}", f"[{box}]")))


def _line(number: int, labels: Sequence[str], score: float) -> str:
    label = f" {labels[number]}" if 0 <= number < len(labels) and labels[number] else ""
    return f"{number}{label} {score:.4g}"


def _are_scores(values: Any) -> bool:
    return isinstance(values, list) and len(values) > 1 and all(isinstance(value, int | float) for value in values)
