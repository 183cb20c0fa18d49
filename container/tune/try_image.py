"""``serve.sh try``: images under each scaling, side by side: with which one the model gives the right class."""

from __future__ import annotations

import argparse
import http
import json
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from harness import http_client
from harness.server import ServerFailed
from harness.tables import padded_table
from lightbox.model.checks import newest_folder, newest_signatures, show_version
from lightbox.model.layout import ModelOnDisk
from lightbox.model.options import ModelOptions, load_options
from lightbox.model.spec import DEFAULT_SIGNATURE, ImageInput, scaling_problem
from lightbox.processes.models_on_disk import code_dirs, plan_models, shared_code_dirs
from lightbox.processes.scaling_report import PIXELS, scaled_input, scaling_line
from lightbox.settings_loading import load_settings
from lightbox.telemetry.logs import log
from tune.load import HEADERS, PictureUnreadable, picture
from tune.stack import STOP_SECONDS, reason, start

TOP = 5
INTERRUPTED = 130
_SCORES, _CLASSES = "detection_scores", "detection_classes"
_LABELLED = "a folder that has a folder of images for each class, named by its label or number"
_HARDER = f"take an image that is harder to classify, or {_LABELLED}"
_OVERRIDES = ("LIGHTBOX_OPTIONS", "LIGHTBOX_SCALING", "LIGHTBOX_LABELS", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME")
"""Settings that would win over the options that each copy of the model has."""


class TryRefused(Exception):
    """Nothing can be compared; the message is one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Print under each scaling a model's best classes for an image, or how many images it classifies right.

    Returns the exit code. Raises what ``serve`` raises for wrong settings.
    """
    options = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        return _run(options.model, options.image)
    except KeyboardInterrupt:
        log("interrupted: all started processes are stopped")
        return INTERRUPTED
    except (TryRefused, PictureUnreadable) as error:
        log(str(error))
        return 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "serve.sh try",
        description="Print what a model answers for an image under each scaling, side by side; for a folder with "
        "labels, how many images each scaling classifies right. It serves a copy of the model for each scaling, on "
        "ports of its own, without the user's code.",
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a model in LIGHTBOX_MODEL_DIR; else the default one")
    parser.add_argument("--image", type=Path, metavar="PATH", required=True, help=f"an image, or {_LABELLED}")
    return parser


def _run(name: str | None, image: Path) -> int:
    settings = load_settings()
    models, default = plan_models(settings)
    if name is not None and name not in models:
        known = ", ".join(models)
        raise TryRefused(f"MODEL: there is no model named {name!r} in {settings.model_dir}; found: {known}")
    model = models[name or default]
    wanted = _input_of(model)
    folders = code_dirs(model, shared_code_dirs(settings))
    options = load_options(folders, settings)
    labels = options.labels if isinstance(options.labels, tuple) else ()
    classes, bodies, described = _labelled(image, labels) if image.is_dir() else ([], *_one(image))
    scalings = [scaling for scaling in PIXELS if scaling_problem(scaling, wanted) is None]
    print(f"starting {model.name} with {', '.join(scalings)}; {described}", file=sys.stderr, flush=True)
    answers = _answers(model, options, scalings, bodies)
    print(f"{model.name}, {described}: {_told(bool(classes))}\n")
    for line in rights(answers, classes) if classes else side_by_side(answers, labels):
        print(line)
    print(f"\n{scaling_line(model, folders, settings)}")
    return 0


def _input_of(model: ModelOnDisk) -> ImageInput:
    wanted = scaled_input(model)
    if wanted is None:
        signature = newest_signatures(model).get(DEFAULT_SIGNATURE)
        takes = ", ".join(map(str, signature.inputs.values())) if signature else f"no signature {DEFAULT_SIGNATURE}"
        raise TryRefused(
            f"MODEL: expected one that takes an image as floating-point pixels, as others are not scaled; "
            f"{model.name} has {takes}"
        )
    return wanted


def _one(image: Path) -> tuple[list[bytes], str]:
    body, described = picture(image)
    return [body], described


def _labelled(folder: Path, labels: Sequence[str]) -> tuple[list[int], list[bytes], str]:
    """Return the class of each image of a folder with labels, the images, and what they are in a few words."""
    classes, bodies = [], []
    for place in _seen(folder.iterdir()):
        if not place.is_dir() or (place.name not in labels and not place.name.isdecimal()):
            raise TryRefused(f"--image: expected {_LABELLED}; got {place.name!r}")
        number = labels.index(place.name) if place.name in labels else int(place.name)
        images = _seen(place.iterdir())
        classes += [number] * len(images)
        bodies += [picture(image)[0] for image in images]
    if not bodies:
        raise TryRefused(f"--image: {folder} holds no images in folders: expected {_LABELLED}")
    return classes, bodies, f"{len(bodies)} images of {len(set(classes))} classes"


def _seen(paths: Iterable[Path]) -> list[Path]:
    """Return paths in order, without hidden ones."""
    return sorted(path for path in paths if not path.name.startswith("."))


def _told(labelled: bool) -> str:
    if labelled:
        return "how many each scaling classifies right"
    return f"the best {TOP} of each scaling, as class, label, score"


def _answers(
    model: ModelOnDisk, options: ModelOptions, scalings: Sequence[str], bodies: Sequence[bytes]
) -> dict[str, list[Any]]:
    """Return the predictions for the images, JSON, under each scaling."""
    with tempfile.TemporaryDirectory(prefix="lightbox-try-") as folder:
        for scaling in scalings:
            _copy(model, Path(folder, scaling), options, scaling)
        own = {"LIGHTBOX_MODEL_DIR": folder, "SAGEMAKER_GUNICORN_WORKERS": "1", **dict.fromkeys(_OVERRIDES, "")}
        stack = start(own)
        try:
            stack.until_ready()
            with http_client.Client(stack.port) as client:
                return {scaling: [_ask(client, scaling, body) for body in bodies] for scaling in scalings}
        except ServerFailed as error:
            why = reason(error).replace(str(Path(folder, scalings[0])), str(model.base_path))
            raise TryRefused(f"{model.name} cannot be served: {why}") from None
        finally:
            stack.close(STOP_SECONDS)


def _copy(model: ModelOnDisk, folder: Path, options: ModelOptions, scaling: str) -> None:
    """Make a model of links that has one scaling; labels are put in here."""
    (folder / "code").mkdir(parents=True)
    show_version(newest_folder(model), folder / "1")
    own = options.model_copy(update={"scaling": scaling, "labels": None, "top_k": None})
    (folder / "code" / "lightbox.json").write_text(own.model_dump_json(exclude_none=True))


def _ask(client: http_client.Client, scaling: str, body: bytes) -> Any:
    attributes = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={scaling}", "Accept": "application/json"}
    answer = client.send("POST", "/invocations", body, {**HEADERS, **attributes})
    content = json.loads(answer.body)
    if answer.status != http.HTTPStatus.OK:
        raise TryRefused(f"--image: the model answers {answer.status}: {content.get('error', content)}")
    return content["predictions"][0]


def side_by_side(answers: Mapping[str, Sequence[Any]], labels: Sequence[str]) -> list[str]:
    """Return the table of one image, and a sentence where all scalings give it the same class."""
    columns = [best(prediction, labels) for (prediction,) in answers.values()]
    depth = max(map(len, columns))
    rows = [[column[row] if row < len(column) else "" for column in columns] for row in range(depth)]
    firsts = {pairs[0][0] for (prediction,) in answers.values() if (pairs := _ranked(_outputs(prediction)))}
    alike = len(firsts) == 1 and len(answers) > 1
    return padded_table(list(answers), rows) + ([f"\nEach scaling gives the same class: {_HARDER}"] if alike else [])


def rights(answers: Mapping[str, Sequence[Any]], classes: Sequence[int]) -> list[str]:
    """Return the table of a folder with labels, and a sentence where the best scalings are several."""
    rights = [
        sum((_ranked(_outputs(prediction)) or [(-1, 0.0)])[0][0] == number for prediction, number in pairs)
        for pairs in (zip(predictions, classes, strict=True) for predictions in answers.values())
    ]
    table = padded_table(list(answers), [[f"{right} of {len(classes)}" for right in rights]])
    firsts = [scaling for scaling, right in zip(answers, rights, strict=True) if right == max(rights)]
    return table + ([f"\n{' and '.join(firsts)} are alike: {_HARDER}"] if len(firsts) > 1 else [])


def best(prediction: Any, labels: Sequence[str]) -> list[str]:
    """Return ``class label score`` of the best classes of one prediction, the best first.

    Without scores of classes, it is the beginning of each output as JSON.
    """
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


def _line(number: int, labels: Sequence[str], score: float) -> str:
    label = f" {labels[number]}" if 0 <= number < len(labels) and labels[number] else ""
    return f"{number}{label} {score:.4g}"


def _are_scores(values: Any) -> bool:
    return isinstance(values, list) and len(values) > 1 and all(isinstance(value, int | float) for value in values)
